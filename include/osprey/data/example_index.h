#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "osprey/config/label_map.h"
#include "osprey/config/node.h"
#include "osprey/data/record_file.h"
#include "osprey/protos/input_reader.pb.h"

namespace osprey::data {

/// Serialized tf.Examples by number, so that shuffling moves numbers and not images: the records of files, or what
/// annotations and pictures come to. Any number of threads may read at the same time.
class ExampleIndex {
 public:
  virtual ~ExampleIndex() = default;

  virtual int64_t size() const = 0;

  /// The bytes of example `index`, in [0, size()).
  /// throws BadRecord for an annotated picture of which none can be made; DataError for files that cannot be read
  virtual std::string read(int64_t index) const = 0;

  /// Where it lies, for messages.
  virtual RecordOrigin origin(int64_t index) const = 0;

  /// What was wrong with annotations that were read so far, each picture counted once, and what was left out: a line
  /// for each kind. Files of records have none.
  virtual std::vector<std::string> problems() const { return {}; }
};

/// The examples of a tf_record_input_reader or annotation_input_reader.
///
/// label_map  of the reader; may be null for records. Objects of annotations whose classes it does not have are left
///            out and counted.
/// throws     DataError: missing or empty files, broken framing; ConfigError: an annotation_input_reader without label
///            map, a folder or split that is not there
std::unique_ptr<ExampleIndex> open_examples(const config::ConfigNode<proto::InputReader>& reader,
                                            std::shared_ptr<const config::LabelMap> label_map);

/// The files of records, or of annotations, behind a reader, in order; their names and sizes tell one set from another.
/// Of YOLO data sets they are those in the folder of the description and below. Readers of other programs have none
/// that are known.
///
/// name    how messages call the reader
/// throws  DataError as `expand_input_paths`, and for a folder that is not there
std::vector<std::string> input_files(const proto::InputReader& reader, const std::string& name);

}  // namespace osprey::data
