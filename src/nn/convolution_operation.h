#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "osprey/kernels/sliding_window.h"
#include "osprey/nn/convolution.h"

namespace osprey::nn {

/// Whether the network may be made of our operators: an exported one has to do with those of libtorch.
bool takes_own_operators();

/// A convolution of any network happens in one of the two that follow, or in `folded_convolution`, or, where it may
/// leave its batch norm pending or only its statistics are wanted, in `kernels::normalized_convolution`. Gradients flow
/// to x, weights and biases (may be undefined). On a CPU where autocast is on maps have half the bits, but weights and
/// biases are float32 and so is the arithmetic, unless the CPU has instructions for half the bits and libtorch makes
/// use of them.

/// A convolution of each channel by itself, where `takes_depthwise_operation` says that it is the faster way.
at::Tensor depthwise_operation(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                               const kernels::SlidingWindow& window);
bool takes_depthwise_operation(const at::Tensor& x, const at::Tensor& weights, const ConvolutionOptions& options);

/// How the window of a convolution moves over a map.
kernels::SlidingWindow window_over(const at::Tensor& x, const ConvolutionOptions& options);

/// Whether a convolution of a training step may leave its batch norm pending and do that of its input, see
/// kernels/normalized_convolution.h.
bool takes_normalized_operation(const at::Tensor& x, const at::Tensor& weights, const ConvolutionOptions& options,
                                const kernels::SlidingWindow& window);

/// The map in the numbers that maps consist of where autocast is on; elsewhere as it is.
at::Tensor as_autocast(const at::Tensor& x);

/// at::conv2d of one or more maps whose padding is the same on both sides: together where that is faster.
std::vector<at::Tensor> convolution_operation(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases,
                                              const ConvolutionOptions& options, std::array<int64_t, 2> padding);

}  // namespace osprey::nn
