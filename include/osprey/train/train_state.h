#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "osprey/checkpoint/checkpoint.h"
#include "osprey/models/detection_model.h"
#include "osprey/optim/moving_average.h"
#include "osprey/optim/optimizer.h"
#include "osprey/train/loss_scale.h"

namespace osprey::train {

/// Batches that were left out, since their losses or gradients were not finite.
struct SkippedBatches {
  int64_t total = 0;
  int64_t in_a_row = 0;    ///< up to the last one
  int64_t last_step = -1;  ///< how many steps had been made before that; -1: there is none

  /// With one more that is left out at `step`.
  SkippedBatches with(int64_t step) const { return {total + 1, step == last_step + 1 ? in_a_row + 1 : 1, step}; }
};

/// Everything that decides how a run goes on; exactly what a checkpoint holds.
struct TrainState {
  std::shared_ptr<models::DetectionModel> model;
  std::shared_ptr<optim::Optimizer> optimizer;
  std::shared_ptr<optim::MovingAverage> average;  ///< null where the run keeps no moving average
  std::shared_ptr<LossScale> loss_scale;          ///< null where losses are not scaled
  int64_t step = 0;                               ///< steps made so far
  int64_t data_position = 0;                      ///< index of the next batch
  SkippedBatches skipped;
  int64_t rollbacks = 0;     ///< how often the run went back to a checkpoint, since a batch was not finite
  at::Tensor healthy;        ///< scalar bool on the device: every step could be made since the run began or a batch was
                             ///< left out; undefined: there was none. Once false no step changes anything.
  at::Tensor healthy_steps;  ///< scalar int64 on the device: how many steps since then could be made
};

/// The state as a checkpoint; tensors are shared, not copied.
checkpoint::Checkpoint snapshot(const TrainState& state);

/// Puts a checkpoint of the same model and optimizer back, bit for bit. A loss scale may be on one side alone: the
/// precision may change between runs.
/// source  names the checkpoint in errors
/// throws CheckpointError (ExitCode::kUsage) listing every variable or slot that is missing, too many, or of another
/// shape
void restore(TrainState& state, const checkpoint::Checkpoint& checkpoint, const std::string& source);

}  // namespace osprey::train
