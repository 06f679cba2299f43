#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace osprey::kernels {

/// Whether `winograd_convolution` is the faster way for a convolution of 3 x 3, stride 1, padding 1 and no groups: maps
/// of many channels in channels_last on a CPU, with many places all together. (bench/models/convolution_bench.cc prints
/// the rates of both ways.)
bool takes_winograd(at::TensorList maps, const at::Tensor& weights);

/// A convolution of 3 x 3 with a zero on every side, by tiles of 4 x 4 results that take 36 products a channel instead
/// of 144; of 3 x 3 that take 25 instead of 81 where bfloat16 numbers are multiplied; of 2 x 2 where all maps are
/// small. Its errors are other ones than those of a plain convolution, those of floats at most twice as large, and a
/// number that is none shows in all of a tile that sees it (docs/kernels.md). Fewer than 16 channels, or I that is no
/// multiple of 16, are left to libtorch.
///
/// maps      [B, I, H, W] each float32, bfloat16 or float16, all of one type; sums are of float32
/// weights   [O, I, 3, 3] float32
/// biases    [O] float32; undefined: 0
/// returns   [B, O, H, W] each of the type of the maps, channels_last
/// throws    c10::Error where sizes or types are not as above
/// operator  osprey::winograd_convolution
/// source    Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016
std::vector<at::Tensor> winograd_convolution(at::TensorList maps, const at::Tensor& weights,
                                             const at::Tensor& biases = {});

/// Its gradients of the maps, which are such a convolution, too.
///
/// gradients  [B, O, H, W] each
/// returns    [B, I, H, W] each of the same type, channels_last
std::vector<at::Tensor> winograd_convolution_gradient(at::TensorList gradients, const at::Tensor& weights);

}  // namespace osprey::kernels
