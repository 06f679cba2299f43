#pragma once
#include "train_detector/flags.h"

namespace osprey::tools {

/// Flags of the trainers that users come from, the Object Detection API's and NVIDIA's EfficientDet's: some are obeyed,
/// some have nothing to do here, and the rest say what does it.
void add_foreign_flags(CLI::App& app, TrainFlags& flags);

}  // namespace osprey::tools
