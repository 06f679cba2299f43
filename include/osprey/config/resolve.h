#pragma once
#include <string>

#include "osprey/config/pipeline.h"

/// Rules that turn several fields of a pipeline into one decision, so that every program decides alike.
namespace osprey::config {

/// `num_classes` of the chosen model (ssd, faster_rcnn, ...); 0 where it is not set, or the model has none.
int64_t num_classes(const proto::TrainEvalPipelineConfig& config);

/// Where the chosen model has it and it is not set, sets it to the largest id of the first label map of the readers,
/// that for training before those for evaluation, that is in the config or whose file is there.
///
/// throws  ConfigError where that file is no label map
void derive_num_classes(proto::TrainEvalPipelineConfig& config);

/// Whose optimizer and batch-norm arithmetic a run follows; never AUTO.
struct ArithmeticChoice {
  proto::TrainEvalPipelineConfig::Arithmetic value = proto::TrainEvalPipelineConfig::TF1;
  std::string reason;  ///< the field that decided, in words
};

/// The `arithmetic` field where it is set; otherwise TF2 for a feature extractor whose type ends in "_keras", for
/// CenterNet and for `fine_tune_checkpoint_version: V2`; otherwise TF1.
ArithmeticChoice arithmetic(const proto::TrainEvalPipelineConfig& config);

/// Whether the network is trained for 8 bits: `graph_rewriter` is there, and the feature extractor is not one of those
/// of TF2, whose type ends in "_keras" and which the original does not rewrite.
bool trains_for_8_bits(const proto::TrainEvalPipelineConfig& config);

/// The metric of evaluations whose `metrics_set` names none: "image_classification_metrics" for an image_classifier,
/// otherwise "coco_detection_metrics".
std::string default_metric(const proto::TrainEvalPipelineConfig& config);

/// Sets the metric of `keep_best` and `early_stopping` where they name none and the model is an image_classifier, whose
/// evaluations do not give the schema's default: "ImageClassification/Accuracy".
void derive_metrics(proto::TrainEvalPipelineConfig& config);

/// Rows of boxes per image: the reader's `max_number_of_boxes` if set, else that of `train_config` where it is above
/// 100, else 100. (The original looks at the reader's only; no box that it sees is left out.)
/// 0 stands for "found by a scan of the data".
int max_number_of_boxes(const proto::TrainEvalPipelineConfig& config, const proto::InputReader& reader);

/// How training batches are prepared, as far as the older fields of `train_config` say.
struct InputQueue {
  int threads = 0;  ///< `num_batch_queue_threads`; 0: one per processor
  /// `prefetch_queue_capacity`, else what `batch_queue_capacity` examples come to, unless the reader has
  /// `num_prefetch_batches`; 0: as the reader says.
  int batches = 0;
};
InputQueue input_queue(const proto::TrainEvalPipelineConfig& config);

/// What the fine-tuning checkpoint restores: `fine_tune_checkpoint_type`, or what the deprecated
/// `from_detection_checkpoint` says: "detection" or "classification".
std::string fine_tune_checkpoint_type(const proto::TrainConfig& config);

/// The `precision` field; where it is AUTO: on a GPU TF32, or BF16 with the deprecated `use_bfloat16`. On a CPU that
/// has bfloat16 arithmetic BF16 with `use_bfloat16`, and AUTO where that is written out: the faster of BF16 and FP32,
/// to be found by a trial. Everywhere else FP32, so that a run whose config says nothing is the same on every CPU.
proto::TrainConfig::Precision precision(const proto::TrainConfig& config, bool on_gpu = false);

}  // namespace osprey::config
