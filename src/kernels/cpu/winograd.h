#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "kernels/cpu/normalized_convolution.h"
#include "osprey/kernels/epilogue.h"

/// Convolutions of 3 x 3, stride 1 and padding 1 by tiles of several places; see loops/winograd_rows.h. Maps are
/// channels_last, of any type that maps have, and one or more of any sizes that share their weights.
namespace osprey::kernels::cpu {

/// Whether there are channels and places enough for what follows, and I fills panels.
bool fits_winograd(at::TensorList maps, int64_t O, int64_t I);

/// weights     [O, I, 3, 3] float32
/// biases      [columns] float32, contiguous, or undefined
/// transposed  of the gradients of the maps: what has O channels becomes I, and the window is turned around
/// results     [B, columns, H, W] each, of the type of the maps
void convolve_in_tiles(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                       at::TensorList results);

/// What is multiplied of weights, [numbers] float32.      map  whose type and sizes count, not its values
at::Tensor pack_for_tiles(const at::Tensor& map, const at::Tensor& weights);

/// How many numbers those are for so many channels of the result.
int64_t packed_size(const at::Tensor& map, int64_t columns);

/// The same as `convolve_in_tiles` by weights that have been packed for such a map; results are clamped.
/// packed   [packed_size(map, O)] float32, contiguous
/// biases   [O] float32, contiguous
void convolve_by_packed(const at::Tensor& map, const at::Tensor& packed, const at::Tensor& biases,
                        const Epilogue& limits, const at::Tensor& result);

/// The gradient of the weights, [O, 3, 3, I] float32.
/// gradients  [B, O, H, W] each      maps  [B, I, H, W], of the same type
/// affines    of a convolution that normalises: clamps pending of each map, or none of any; empty: of one that does not
at::Tensor weight_gradient_in_tiles(at::TensorList gradients, at::TensorList maps,
                                    const std::vector<std::optional<Affine>>& affines = {});

/// Whether tiles take windows of 3 x 3 over maps that are normalised as they are read: maps that are multiplied as they
/// are, with channels that fill panels.
bool normalizes_in_tiles(at::ScalarType maps, int64_t O, int64_t I);

/// See normalized_convolution.h; of several maps by the same weights of 3 x 3.
std::vector<Convolved> normalized_in_tiles(at::TensorList maps, const std::vector<std::optional<Affine>>& affines,
                                           const at::Tensor& weights);
SharedGradients normalized_in_tiles_backward(const std::vector<ThroughStatistics>& gradients, at::TensorList maps,
                                             const std::vector<std::optional<Affine>>& affines,
                                             const at::Tensor& weights, bool of_x);

}  // namespace osprey::kernels::cpu
