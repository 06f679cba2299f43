#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "osprey/checkpoint/checkpoint.h"
#include "osprey/models/detection_model.h"
#include "osprey/optim/moving_average.h"
#include "osprey/optim/optimizer.h"

namespace osprey::train {

/// Everything that decides how a run goes on; exactly what a checkpoint holds.
struct TrainState {
  std::shared_ptr<models::DetectionModel> model;
  std::shared_ptr<optim::Optimizer> optimizer;
  std::shared_ptr<optim::MovingAverage> average;  ///< null where the run keeps no moving average
  int64_t step = 0;                               ///< updates made so far
  int64_t data_position = 0;                      ///< index of the next batch
};

/// The state as a checkpoint; tensors are shared, not copied.
checkpoint::Checkpoint snapshot(const TrainState& state);

/// Puts a checkpoint of the same model and optimizer back, bit for bit.
/// source  names the checkpoint in errors
/// throws CheckpointError (ExitCode::kUsage) listing every variable or slot that is missing, too many, or of another
/// shape
void restore(TrainState& state, const checkpoint::Checkpoint& checkpoint, const std::string& source);

}  // namespace osprey::train
