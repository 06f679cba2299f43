#pragma once
#include <filesystem>

#include "train/assembly.h"

namespace osprey::train {

/// Brings the state to where the run begins: the newest checkpoint of the model directory, else the fine-tuning
/// checkpoint, else the first weights. Says in one line which it was.
/// throws CheckpointError, ConfigError as the parts do
void start_from(Assembly& assembly, const std::filesystem::path& model_dir);

/// The file that train_config.fine_tune_checkpoint stands for.
/// throws CheckpointError where there is none
std::filesystem::path fine_tune_file(const Assembly& assembly);

}  // namespace osprey::train
