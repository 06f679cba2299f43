#pragma once
#include <ATen/core/Tensor.h>

namespace osprey::kernels {

/// Whether `winograd_convolution` is the faster way for a convolution of 3 x 3, stride 1, padding 1 and no groups: maps
/// of many channels in channels_last on a CPU. (bench/models/convolution_bench.cc prints the rates of both ways.)
bool takes_winograd(const at::Tensor& x, const at::Tensor& weights);

/// A convolution of 3 x 3 with a zero on every side, by tiles of 4 x 4 results that take 36 products a channel instead
/// of 144; of 3 x 3 that take 25 instead of 81 where bfloat16 numbers are multiplied; of 2 x 2 for small maps. Its
/// errors are other ones than those of a plain convolution, those of floats at most twice as large, and a number that
/// is none shows in all of a tile that sees it (docs/kernels.md). Fewer than 16 channels, or I that is no multiple of
/// 16, are left to libtorch.
///
/// x         [B, I, H, W] float32, bfloat16 or float16; sums are of float32
/// weights   [O, I, 3, 3] float32
/// biases    [O] float32; undefined: 0
/// returns   [B, O, H, W] of the type of x, channels_last
/// throws    c10::Error where sizes or types are not as above
/// operator  osprey::winograd_convolution
/// source    Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016
at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases = {});

/// Its gradient of x, which is such a convolution, too.
///
/// gradient_y  [B, O, H, W]
/// returns     [B, I, H, W] of the same type, channels_last
at::Tensor winograd_convolution_gradient(const at::Tensor& gradient_y, const at::Tensor& weights);

}  // namespace osprey::kernels
