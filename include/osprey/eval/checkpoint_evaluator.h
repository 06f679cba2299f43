#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "osprey/config/label_map.h"
#include "osprey/config/node.h"
#include "osprey/eval/evaluator.h"
#include "osprey/protos/pipeline.pb.h"

namespace osprey::eval {

/// The reader whose label map names the classes: eval_input_reader[index]; where there is none, or it has no label map,
/// train_input_reader, if it has one inside or its file is there, which it need not be on a machine that only
/// evaluates.
config::ConfigNode<proto::InputReader> naming_reader(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root,
                                                     int index);

/// The label map of a reader, for a model; nothing where it has none.
///
/// throws  ConfigError where it has an id above the model's `num_classes`, or cannot be read
std::optional<config::LabelMap> label_map_within(const config::ConfigNode<proto::InputReader>& reader,
                                                 int64_t num_classes);

/// Warns where the label map that a training has left beside a checkpoint is not the one of this reader.
/// map  of the reader
void warn_of_other_names(const config::ConfigNode<proto::InputReader>& reader, const config::LabelMap& map,
                         const std::filesystem::path& checkpoint);

/// The classes that an evaluation knows: those of the label map of the naming reader, or, where that has none,
/// "class 1", "class 2", ... up to `num_classes`.
///
/// throws  ConfigError where there is no eval_input_reader[index], and as `label_map_within`
std::vector<Category> evaluation_categories(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root, int index,
                                            int64_t num_classes);

struct CheckpointEvaluatorOptions {
  int reader = 0;         ///< index into eval_input_reader
  bool skip_bad = false;  ///< leave out, and count, records that cannot be used
  c10::Device device = c10::Device(c10::kCPU);
  /// Pictures are looked at in tiles. What the config writes to export_path and visualization_export_dir is then not
  /// written, nor with `find`: it would replace that of the training.
  std::optional<boxes::TileOptions> tiles = {};
  /// Looks at whole pictures, or their tiles, in the place of checkpoints: an exported model, which has its own
  /// resizer.
  boxes::Find find = {};
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
  /// Evaluates what `CheckpointEvaluatorOptions::find` finds.
  /// file  that it looks by, with its own label map beside it
  EvaluationResult evaluate_found(const std::filesystem::path& file);

  /// To be changed before `evaluate`: progress, pictures and so on.
  EvaluationOptions& options() { return options_; }

 private:
  std::shared_ptr<models::DetectionModel> model_;
  std::unique_ptr<data::BatchSource> source_;
  std::vector<Category> categories_;
  std::function<void(const std::filesystem::path& checkpoint)> look_at_names_;  // of the first checkpoint
  EvaluationOptions options_;
  bool moving_averages_ = false;
};

}  // namespace osprey::eval
