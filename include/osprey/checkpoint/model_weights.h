#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "osprey/checkpoint/checkpoint.h"
#include "osprey/models/detection_model.h"

namespace osprey::checkpoint {

/// The tensors of a checkpoint whose names begin with `prefix`, without it.
std::map<std::string, at::Tensor> with_prefix(const Checkpoint& checkpoint, const std::string& prefix);

/// Puts the weights of a checkpoint into the model; every variable must be there with its shape, and no other.
/// moving_averages  takes the averaged weights where the checkpoint has them ("average/..."), for evaluation and export
/// source           names the checkpoint in errors
/// throws           CheckpointError (ExitCode::kUsage) listing what differs: missing, of another shape (both shapes),
///                  not in the model
void load_model(const Checkpoint& checkpoint, models::DetectionModel& model, bool moving_averages,
                const std::string& source);

/// Reads and verifies the weights for a model from what `resolve` gave: a checkpoint of Osprey as it is, or one of
/// TensorFlow, whose variables get the model's names and layouts ("model/...", "average/..."); those that the model
/// does not have keep their own, with dots, as a classifier's do.
///
/// throws  CheckpointError: missing or damaged
Checkpoint read_for(const models::DetectionModel& model, const std::filesystem::path& file);

/// Reads the file by `read_for`, then as above; returns the step it was written at.
int64_t load_model(const std::filesystem::path& file, models::DetectionModel& model, bool moving_averages);

}  // namespace osprey::checkpoint
