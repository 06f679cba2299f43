#pragma once
#include <filesystem>

#include "train/assembly.h"

namespace osprey::train {

/// Brings the state to where the run begins: the newest checkpoint of the model directory, else the fine-tuning
/// checkpoint, else the first weights. Says in one line which it was.
/// throws CheckpointError, ConfigError as the parts do
void start_from(Assembly& assembly, const std::filesystem::path& model_dir);

}  // namespace osprey::train
