#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "osprey/config/node.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/collate.h"
#include "osprey/data/image_resizer.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::data {

/// Everything a source needs beside its reader.
struct SourceOptions {
  bool training = true;    ///< batches without end, in the order of (seed, epoch), augmented, bad records replaced;
                           ///< otherwise one pass over every record, the last batch filled up with image weight 0
  int64_t batch_size = 1;  ///< rows of the batches that this source gives
  int64_t share = 0;       ///< several replicas: which part of every batch is this one's,
  int64_t num_shares = 1;  ///< of so many equal ones; the whole batch then has num_shares * batch_size rows
  uint64_t seed = 0;
  int64_t num_classes = 1;
  int64_t max_boxes = 100;         ///< M; more boxes are left out, counted; 0: found by a scan
  bool multi_label = false;        ///< merge_multiple_label_boxes; training only
  bool class_scores = false;       ///< use_multiclass_scores; training only
  bool confidences = false;        ///< batches carry label confidences
  bool float_images = false;       ///< do not round to uint8 after the resize
  int64_t num_workers = 0;         ///< 0: one per processor
  int64_t prefetch_batches = 0;    ///< finished batches that may wait; 0: the reader's num_prefetch_batches
  double max_bad_fraction = 0.01;  ///< share of unusable records above which training ends with a DataError
  bool strict = false;             ///< boxes beyond max_boxes end the run with a DataError
  bool skip_bad = false;           ///< evaluation: leave out unusable records, counted, instead of a DataError
  bool pin_memory = false;         ///< batches are copied to a GPU: that is faster from pinned memory
  std::shared_ptr<const ImageResizer> resizer;  ///< without a static size each batch has a canvas of its own
  std::optional<ImageSize> canvas;              ///< where pictures lie that the device resizes; none: resized here
  std::shared_ptr<const Augmenter> augmenter;   ///< may be null; training only

  /// Rows of a batch on all replicas together.
  int64_t whole_batch() const { return batch_size * num_shares; }
  /// Place in the run of the first row of this share of a batch.
  int64_t first_of(int64_t batch) const { return batch * whole_batch() + share * batch_size; }
};

/// The shape of the batches that options ask for; max_boxes 0 where it is to be found, and num_classes 0 where a label
/// map says.
BatchShape shape_of(const SourceOptions& options);

/// Of how many pictures an example is made at most: 1, but where training has steps that take several.
int64_t pictures_of(const SourceOptions& options);

/// The options that a pipeline asks for in training: batch size, seed, classes, boxes, resizer, augmentation. Ranges
/// that config::validate checks are taken as checked.
SourceOptions train_options(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root);
/// The options of its evaluation with eval_input_reader[index]: eval_config.batch_size, no augmentation.
SourceOptions eval_options(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root, int index = 0);

}  // namespace osprey::data
