#pragma once
#include "train_detector/flags.h"

namespace osprey::tools {

/// Flags that the trainers take which Osprey takes over from: some are obeyed, some have nothing to do here, and the
/// rest say what does it.
void add_foreign_flags(CLI::App& app, TrainFlags& flags);

}  // namespace osprey::tools
