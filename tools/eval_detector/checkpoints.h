#pragma once
#include "eval_detector/flags.h"

namespace osprey::tools {

/// Evaluates the checkpoints that the flags mean: one, those of a range of steps, or each new one of a training that
/// goes on. Writes what is found into the folder of the run, and prints it.
/// throws ConfigError, DataError, CheckpointError as the parts do
void evaluate_checkpoints(const EvalFlags& flags);

}  // namespace osprey::tools
