#pragma once
#include <filesystem>
#include <functional>
#include <memory>

#include "osprey/eval/event_writer.h"
#include "osprey/train/trainer.h"
#include "train/assembly.h"

namespace osprey::train {

/// The evaluation inside a run: every image of eval_input_reader[0] through the model as it is now, with averaged
/// weights where eval_config.use_moving_averages says so; results go to <model_dir>/eval. Empty where the config has no
/// eval_input_reader.
std::function<Metrics(const TrainState&)> evaluation_of(const Assembly& assembly,
                                                        const std::filesystem::path& model_dir);

}  // namespace osprey::train
