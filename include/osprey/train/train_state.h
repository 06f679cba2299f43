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

/// Everything that decides how a run goes on; exactly what a checkpoint holds.
struct TrainState {
  std::shared_ptr<models::DetectionModel> model;
  std::shared_ptr<optim::Optimizer> optimizer;
  std::shared_ptr<optim::MovingAverage> average;  ///< null where the run keeps no moving average
  std::shared_ptr<LossScale> loss_scale;          ///< null where losses are not scaled
  int64_t step = 0;                               ///< steps made so far
  int64_t data_position = 0;                      ///< index of the next batch
  at::Tensor healthy;        ///< scalar bool on the device: every step so far could be made; undefined: there was none.
                             ///< Once false no step changes anything.
  at::Tensor healthy_steps;  ///< scalar int64 on the device: how many since the run began
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
