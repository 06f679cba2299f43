#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "osprey/nn/convolution.h"

namespace osprey::nn {

/// at::conv2d of a map whose padding is the same on both sides: the one place where a convolution of any network
/// happens. Gradients flow to x, weights and biases (may be undefined).
at::Tensor convolution_operation(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                                 const ConvolutionOptions& options, std::array<int64_t, 2> padding);

}  // namespace osprey::nn
