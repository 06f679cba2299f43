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

/// Whether matrix products are the faster way to the weight gradient of a convolution without groups and dilation:
/// float32 maps on a CPU without AVX-512, of many channels and not much smaller than with their padding.
/// (bench/models/convolution_bench.cc prints the rates of both ways.)
bool multiplies_weight_gradient(const at::Tensor& x, const at::Tensor& weights, const ConvolutionWindow& window);

/// Gradient of the weights of y = convolution(x): a matrix product of gradient and shifted map for each tap of the
/// kernel, so that nothing is unrolled.
///
/// gradient_y  [B, O, H', W'] float32
/// x           [B, I, H, W] float32
/// returns     [O, I, kernel height, kernel width] float32, channels_last
/// throws      c10::Error where the sizes do not belong together
/// operator    osprey::convolution_weight_gradient
at::Tensor convolution_weight_gradient(const at::Tensor& gradient_y, const at::Tensor& x,
                                       const ConvolutionWindow& window);

}  // namespace osprey::kernels
