#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "osprey/models/detection_model.h"

namespace osprey::checkpoint {

struct WarmStartOptions {
  models::RestoreType type = models::RestoreType::kDetection;
  double min_coverage = 0.8;  ///< share of the wanted backbone parameters (below) that must be found
};

/// What became of one variable.
struct Restored {
  enum class State { kLoaded, kShapeMismatch, kMissing, kUnused };
  State state = State::kLoaded;
  std::string name;  ///< in our model; in the checkpoint for kUnused
  std::vector<int64_t> model_shape, checkpoint_shape;
};

/// How a fine-tuning checkpoint fitted.
struct WarmStartReport {
  std::vector<Restored> variables;  ///< model variables in their order, then the unused ones of the checkpoint
  int64_t parameters_loaded = 0, parameters_total = 0;  ///< elements, of the whole model
  double backbone_coverage = 1;                         ///< share of the elements that every type of restore wants

  /// One line of totals, then a table of what was not simply loaded; at most `max_rows` rows.
  std::string text(size_t max_rows = 40) const;
};

/// Initialises the model from a checkpoint of Osprey or TensorFlow for a new run: weights only, the step stays 0.
///
/// The model's `restore_map(type)` says which variables may come from where; those with equal shapes are copied, and
/// all others keep what they have. Coverage is counted over what `restore_map(kClassification)` names, the backbone, so
/// that heads may differ with the number of classes.
///
/// throws  CheckpointError: unreadable (kData); too little of the backbone found (kUsage), with the report in the
///         message
WarmStartReport warm_start(const std::filesystem::path& file, models::DetectionModel& model,
                           const WarmStartOptions& options);

}  // namespace osprey::checkpoint
