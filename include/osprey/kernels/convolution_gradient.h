#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace osprey::kernels {

/// How the window of a convolution moves: [height, width].
struct ConvolutionWindow {
  std::array<int64_t, 2> kernel = {1, 1};
  int64_t stride = 1;
  std::array<int64_t, 2> padding = {0, 0};  ///< zeros on both sides
};

/// Whether `convolution_weight_gradient` is the faster way for a convolution without groups and dilation: maps in
/// channels_last on a CPU; for strides above 1 maps of many channels, too.
/// (bench/models/convolution_bench.cc prints the rates of both ways.)
bool multiplies_weight_gradient(const at::Tensor& x, const at::Tensor& weights, const ConvolutionWindow& window);

/// Gradient of the weights of a convolution of one or more maps: a matrix product of gradient and shifted map for each
/// tap of the kernel, so that nothing is unrolled. On a CPU those of stride 1 are made together, piece by piece of the
/// map; those that keep the size of maps of many channels as kernels/sliding_convolution.h makes such convolutions.
///
/// gradients  [B, O, H', W'] each float32, bfloat16 or float16; sums are of float32
/// maps       [B, I, H, W], as many likewise: what the gradients of the weights are of is added up
/// returns    [O, I, kernel height, kernel width] float32, channels_last
/// throws     c10::Error where the sizes do not belong together
/// operator   osprey::convolution_weight_gradient
at::Tensor convolution_weight_gradient(at::TensorList gradients, at::TensorList maps, const ConvolutionWindow& window);

/// Gradient of its biases: sums over all places of all maps.
/// gradients  [B, O, H', W'] each float32, bfloat16 or float16; sums are of float32
/// returns    [O] float32
/// throws     c10::Error where there are none, or numbers of channels differ
/// operator   osprey::convolution_bias_gradient
at::Tensor convolution_bias_gradient(at::TensorList gradients);

}  // namespace osprey::kernels
