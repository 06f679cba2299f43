#pragma once
#include "export/tflite/operation.h"

namespace osprey::tflite {

// Rules for what slides over maps.

Value convolution(const Operation& o);
Value max_pool(const Operation& o);
Value average_pool(const Operation& o);
Value padded(const Operation& o);

}  // namespace osprey::tflite
