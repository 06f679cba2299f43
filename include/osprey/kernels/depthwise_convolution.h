#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

/// Whether the operators below are the faster way: maps in channels_last; on a CPU kernels of at most 7 x 7, on a GPU
/// those of 3 x 3 and 5 x 5 that move by 1 or 2 over maps whose channels are a multiple of 4. (What no kernel for GPUs
/// knows they do by libtorch's convolutions. bench/models/convolution_bench.cc prints the rates of both ways on a CPU.)
bool takes_depthwise(const at::Tensor& x, const at::Tensor& weights, int64_t stride);

/// A convolution of each channel by itself; the padding need not be the same on both sides.
///
/// x         [B, C, H, W] float32, bfloat16 or float16; sums are of float32
/// weights   [C, 1, kernel height, kernel width] float32
/// returns   [B, C, H', W'] of the type of x, channels_last
/// throws    c10::Error where sizes or types are not as above, or the window does not fit
/// operator  osprey::depthwise_convolution
at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window);

/// Its gradients of x, like x, and of the weights, like the weights; on a CPU in one pass over both maps. The sums over
/// places are made in an order that does not depend on the number of threads, or on the GPU.
///
/// gradient_y  [B, C, H', W']
/// of_x        false: the first result is undefined
/// operator    osprey::depthwise_convolution_backward
std::pair<at::Tensor, at::Tensor> depthwise_convolution_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                                 const at::Tensor& weights, const SlidingWindow& window,
                                                                 bool of_x = true);

}  // namespace osprey::kernels
