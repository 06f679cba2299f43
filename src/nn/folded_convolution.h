#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/sliding_window.h"
#include "osprey/nn/convolution.h"

namespace osprey::nn {

/// A convolution by two of pictures, made as one by one of a map in which each square of 2 x 2 pixels is a pixel of 16
/// channels. It is the same sum with zeros among its terms, and the units of a GPU that multiply matrices take channels
/// by eights: of 3 channels they make as much work as of 8, with slower kernels.
/// x, weights, biases   as `convolve` has them, x with up to 4 channels; no gradient flows to x
/// window               its stride is 2
at::Tensor folded_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                              const kernels::SlidingWindow& window);

/// Whether that is the faster way.
bool takes_folded_convolution(const at::Tensor& x, const ConvolutionOptions& options);

}  // namespace osprey::nn
