#pragma once
#include <memory>

#include "osprey/config/node.h"
#include "osprey/data/batch_source.h"
#include "osprey/data/source_options.h"
#include "osprey/protos/input_reader.pb.h"

namespace osprey::data {

/// Where the time of a source's workers went, seconds added over all threads, and how long `next` waited.
struct StageSeconds {
  double read = 0, decode = 0, augment = 0, collate = 0, wait = 0;
};

/// A source that decodes, augments and batches the records of a reader on worker threads.
///
/// Batches come in order and are the same for any number of workers; shares of a batch put one after the other are the
/// same for any number of shares. With `shuffle` each epoch has its own order of all
/// records, else it is that of the files. Training takes batches across the border of epochs; with num_epochs it ends
/// after so many, and its last, incomplete batch is dropped unless drop_remainder is false. Evaluation ignores both.
///
/// Boxes beyond max_boxes are left out and counted; warnings name the first such image and each epoch's worst. An
/// unusable record is counted and named in the log once; training takes the next record of the epoch's order in its
/// place, evaluation leaves its row empty with image weight 0.
class RecordSource : public BatchSource {
 public:
  /// Readers of other programs, each configured by a message of its own in `InputReader.custom`.
  using Registry = config::Registry<RecordSource, const SourceOptions&>;

  virtual StageSeconds stage_seconds() const { return {}; }
  virtual int64_t num_dropped_boxes() const { return 0; }  ///< beyond max_boxes, so far
};

/// What make_source refuses before it looks at a file.
///
/// throws   ConfigError for readers that are not built yet and for values out of range
void check_source(const config::ConfigNode<proto::InputReader>& reader, const SourceOptions& options);

/// Opens the files of a reader and starts the workers; or makes the registered source that `custom` names.
///
/// throws   as check_source; ConfigError for a label map that disagrees with num_classes or records; DataError for
///          missing or empty inputs, for broken framing and for too many unusable records (also from `next`)
std::unique_ptr<RecordSource> make_source(const config::ConfigNode<proto::InputReader>& reader,
                                          const SourceOptions& options);

}  // namespace osprey::data
