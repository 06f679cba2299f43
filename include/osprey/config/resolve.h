#pragma once
#include <string>

#include "osprey/config/pipeline.h"

/// Rules that turn several fields of a pipeline into one decision, so that every program decides alike.
namespace osprey::config {

/// Whose optimizer and batch-norm arithmetic a run follows; never AUTO.
struct ArithmeticChoice {
  proto::TrainEvalPipelineConfig::Arithmetic value = proto::TrainEvalPipelineConfig::TF1;
  std::string reason;  ///< the field that decided, in words
};

/// The `arithmetic` field where it is set; otherwise TF2 for a feature extractor whose type ends in "_keras", for
/// CenterNet and for `fine_tune_checkpoint_version: V2`; otherwise TF1.
ArithmeticChoice arithmetic(const proto::TrainEvalPipelineConfig& config);

/// Rows of boxes per image: the reader's `max_number_of_boxes` if set, else that of `train_config` if set, else 100.
/// 0 stands for "found by a scan of the data".
int max_number_of_boxes(const proto::TrainEvalPipelineConfig& config, const proto::InputReader& reader);

/// What the fine-tuning checkpoint restores: `fine_tune_checkpoint_type`, or what the deprecated
/// `from_detection_checkpoint` says: "detection" or "classification".
std::string fine_tune_checkpoint_type(const proto::TrainConfig& config);

/// The `precision` field; where it is AUTO: TF32 on a GPU, and on a CPU that has bfloat16 arithmetic BF16, if AUTO is
/// written out or the deprecated `use_bfloat16` asks for it, else FP32. A run whose config says nothing is the same on
/// every CPU.
proto::TrainConfig::Precision precision(const proto::TrainConfig& config, bool on_gpu = false);

}  // namespace osprey::config
