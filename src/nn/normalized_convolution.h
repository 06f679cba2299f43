#pragma once
#include "osprey/nn/feature_map.h"

namespace osprey::nn {

/// kernels::normalized_convolution; gradients flow from the map and from its statistics to all that the input consists
/// of, and to the weights.
kernels::MapWithStatistics normalized_operation(const kernels::PendingMap& input, const at::Tensor& weights,
                                                const kernels::SlidingWindow& window, double epsilon);

}  // namespace osprey::nn
