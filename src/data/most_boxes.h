#pragma once
#include <cstdint>

#include "osprey/data/example_index.h"

namespace osprey::data {

/// The largest number of boxes in any example that lie in their picture at least in part, for max_number_of_boxes: 0;
/// at least 1. Reads all; those that cannot be read have none.
int64_t most_boxes(const ExampleIndex& index);

}  // namespace osprey::data
