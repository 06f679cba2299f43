#pragma once
#include <filesystem>

#include "train/assembly.h"

namespace osprey::train {

/// Brings the state to where the run begins: the newest checkpoint of the model directory, else the fine-tuning
/// checkpoint, else the first weights. Says in one line which it was.
/// throws CheckpointError, ConfigError as the parts do
void start_from(Assembly& assembly, const std::filesystem::path& model_dir);

/// Brings the state back from a batch that is not finite to the checkpoint that the run is to go on from, with the data
/// after that batch, and lowers the learning rates as the config says. Says so.
/// past    position of the batch; the state is that before its step
/// throws  CheckpointError as reading does
void roll_back(Assembly& assembly, const std::filesystem::path& model_dir, int64_t past);

/// Takes the weights of train_config.fine_tune_checkpoint, which is set.
/// throws CheckpointError, ConfigError as the parts do
void fine_tune(Assembly& assembly);

/// The file that train_config.fine_tune_checkpoint stands for.
/// throws CheckpointError where there is none
std::filesystem::path fine_tune_file(const Assembly& assembly);

}  // namespace osprey::train
