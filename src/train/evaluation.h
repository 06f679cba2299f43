#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "osprey/eval/event_writer.h"
#include "osprey/train/trainer.h"
#include "train/assembly.h"

namespace osprey::train {

/// The evaluation inside a run: every image of eval_input_reader[0] through the model as it is now, with averaged
/// weights where eval_config.use_moving_averages says so; results go to <model_dir>/eval. Empty where the config has no
/// eval_input_reader. SIGINT and SIGTERM end it before its next batch: it gives nothing, and there are no results of
/// its step, not those of an earlier evaluation either.
///
/// replicas  null where one process trains alone; otherwise each takes its share of the images, by the batch-norm
///           averages of the chief, who alone writes and gets metrics
/// throws    ConfigError, DataError where it cannot be made, or gives no metric that keep_best or early_stopping asks for
std::function<std::optional<Metrics>(const TrainState&)> evaluation_of(const Assembly& assembly,
                                                                       const std::filesystem::path& model_dir,
                                                                       Replicas* replicas);

/// Throws what `evaluation_of` would throw, and writes nothing.
void check_evaluation(const Assembly& assembly);

}  // namespace osprey::train
