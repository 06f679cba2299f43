#pragma once
#include <ATen/core/Tensor.h>

namespace osprey::kernels {

/// Whether `pointwise_convolution` is the faster way for a convolution of 1 x 1, stride 1 and no groups: maps in
/// channels_last on a CPU. (bench/models/convolution_bench.cc prints the rates of both ways.)
bool takes_pointwise(const at::Tensor& x, const at::Tensor& weights);

/// A convolution of 1 x 1: the channels of each place times a matrix.
///
/// x         [B, I, H, W] float32, bfloat16 or float16; sums are of float32
/// weights   [O, I, 1, 1] float32
/// biases    [O] float32; undefined: 0
/// returns   [B, O, H, W] of the type of x, channels_last
/// throws    c10::Error where sizes or types are not as above
/// operator  osprey::pointwise_convolution
at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases = {});

/// Its gradient of x: the same with the matrix transposed.
///
/// gradient_y  [B, O, H, W]
/// returns     [B, I, H, W] of the same type, channels_last
at::Tensor pointwise_convolution_gradient(const at::Tensor& gradient_y, const at::Tensor& weights);

}  // namespace osprey::kernels
