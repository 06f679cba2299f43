#pragma once
#include <string>

#include "osprey/train/step.h"

namespace osprey::train {

/// After a step that did not fit: measures what small parts of its batch take and says what to write into the config.
///
/// model     alone: no other replica is asked for anything; it keeps no trace of the trials
/// batch     of this replica, on the model's device
/// options   of the step
/// replicas  that share the batch of the config
/// returns   e.g. "about 12 images at a time fit: train_config.batch_size=12, or
///           train_config.gradient_accumulation_steps=2, which leaves the batch at 16"
std::string memory_advice(models::DetectionModel& model, const Batch& batch, StepOptions options, int64_t replicas);

}  // namespace osprey::train
