#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/eval/evaluator.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::eval {

/// The classes that an evaluation knows: those of the label map of eval_input_reader[index]; where it names none, of
/// the label map of train_input_reader, if that file is there; otherwise "class 1", "class 2", ... up to `num_classes`.
///
/// throws  ConfigError where the label map has an id above `num_classes`, or cannot be read
std::vector<Category> evaluation_categories(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root, int index,
                                            int64_t num_classes);

struct CheckpointEvaluatorOptions {
  int reader = 0;         ///< index into eval_input_reader
  bool skip_bad = false;  ///< leave out, and count, records that cannot be used
  c10::Device device = c10::Device(c10::kCPU);
  /// Pictures are looked at in tiles. What the config writes to export_path and visualization_export_dir is then not
  /// written: it would replace that of whole pictures.
  std::optional<boxes::TileOptions> tiles = {};
};

/// A detector and its evaluation data, built once from a config, for one checkpoint after the other.
///
/// Moving averages are evaluated where eval_config.use_moving_averages says so.
class CheckpointEvaluator {
 public:
  /// throws ConfigError, DataError as the model's and the source's builders
  CheckpointEvaluator(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root,
                      const CheckpointEvaluatorOptions& options);
  ~CheckpointEvaluator();

  /// Loads the checkpoint and evaluates it; `step` becomes the step it was written at.
  /// throws CheckpointError: damaged, or of another model
  EvaluationResult evaluate(const std::filesystem::path& checkpoint, int64_t& step);

  /// To be changed before `evaluate`: progress, pictures and so on.
  EvaluationOptions& options() { return options_; }

 private:
  std::shared_ptr<models::DetectionModel> model_;
  std::unique_ptr<data::BatchSource> source_;
  std::vector<Category> categories_;
  EvaluationOptions options_;
  bool moving_averages_ = false;
};

}  // namespace osprey::eval
