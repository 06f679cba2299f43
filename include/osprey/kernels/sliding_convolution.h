#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "osprey/kernels/epilogue.h"

namespace osprey::kernels {

/// Whether `sliding_convolution` is the faster way for a convolution without groups whose window moves by one and has
/// as many zeros on every side as keep the size: maps of many channels in channels_last on a CPU, with many places all
/// together. (bench/models/convolution_bench.cc prints the rates of both ways.)
bool takes_sliding(at::TensorList maps, const at::Tensor& weights);

/// A convolution whose window, with an odd number of taps in both directions, moves by one, with zeros around the map
/// so that the result is as large. On a CPU with AMX bfloat16 maps are multiplied by tiles of such numbers, whatever
/// the window. Else those of 3 x 3 take Winograd's tiles: of 4 x 4 results that take 36 products a channel instead of
/// 144; of 3 x 3 that take 25 instead of 81 where bfloat16 numbers are multiplied; of 2 x 2 where all maps are small.
/// The errors of these are other ones than those of a plain convolution, those of floats at most twice as large, and a
/// number that is none shows in all of a tile that sees it (docs/kernels.md). Fewer than 16 channels are left to
/// libtorch; by Winograd's tiles I that is no multiple of 16, too.
///
/// maps      [B, I, H, W] each float32, bfloat16 or float16, all of one type; sums are of float32
/// weights   [O, I, height, width] float32, odd sides of at most 7
/// biases    [O] float32; undefined: 0
/// returns   [B, O, H, W] each of the type of the maps, channels_last
/// throws    c10::Error where sizes or types are not as above
/// operator  osprey::sliding_convolution
/// source    Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", CVPR 2016
std::vector<at::Tensor> sliding_convolution(at::TensorList maps, const at::Tensor& weights,
                                            const at::Tensor& biases = {});

/// Its gradients of the maps, which are such a convolution, too.
///
/// gradients  [B, O, H, W] each
/// returns    [B, I, H, W] each of the same type, channels_last
std::vector<at::Tensor> sliding_convolution_gradient(at::TensorList gradients, const at::Tensor& weights);

/// What Winograd's tiles multiply of weights, made once for many calls of `packed_winograd_convolution`.
/// map      [B, I, H, W] on a CPU: its type and sizes count, not its values
/// weights  [O, I, 3, 3] float32
/// returns  [numbers] float32: four times as many as the weights have where H or W is 16 or more (less than three times
///          for pairs of bfloat16), less than twice as many else; none where these tiles are not the faster way
at::Tensor packed_for_winograd(const at::Tensor& map, const at::Tensor& weights);

/// A convolution of 3 x 3 of one map by Winograd's tiles and weights that change no more, clamped: for networks that
/// serve. On CPUs only, and without gradients.
///
/// map       [B, I, H, W] float32, bfloat16 or float16
/// packed    what `packed_for_winograd` has made of the weights for maps of this size and type, and not nothing
/// biases    [O] float32
/// limits    a clamp
/// returns   [B, O, H, W] of the type of the map, channels_last
/// throws    c10::Error where sizes or types are not as above
/// operator  osprey::packed_winograd_convolution
at::Tensor packed_winograd_convolution(const at::Tensor& map, const at::Tensor& packed, const at::Tensor& biases,
                                       const Epilogue& limits);

}  // namespace osprey::kernels
