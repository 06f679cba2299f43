#pragma once
#include "export/tflite/operation.h"

namespace osprey::tflite {

// Rules for what a network for 8 bits rounds. What has been rounded is numbers in the file, and an operation between
// them computes with numbers, where the format has it so.

Value rounded(const Operation& o);
Value rounded_by_channels(const Operation& o);

}  // namespace osprey::tflite
