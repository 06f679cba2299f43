#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "kernels/cpu/normalized_convolution.h"

/// Convolutions of bfloat16 maps by windows that slide (sliding_products.h). Maps are channels_last, on a CPU.
namespace osprey::kernels::cpu {

/// Whether windows slide over such maps by AMX: where the machine has it, and there are channels enough for it to be
/// worth while.
bool slides_by_amx(at::ScalarType maps, int64_t O, int64_t I);

/// weights     [O, I, height, width] float32, odd sides
/// biases      [columns] float32, contiguous, or undefined
/// transposed  of the gradients of the maps: what has O channels becomes I, and the window is turned around
/// results     [B, columns, H, W] each
void slide_over(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                at::TensorList results);

/// The gradient of the weights, [O, height, width, I] float32.
/// gradients  [B, O, H, W] each      maps  [B, I, H, W]
at::Tensor sliding_weight_gradient(at::TensorList gradients, at::TensorList maps, int64_t height, int64_t width);

/// See normalized_convolution.h; for sides that `slide`, of several maps by the same weights.
std::vector<Convolved> normalized_sliding(at::TensorList maps, const std::vector<std::optional<Affine>>& affines,
                                          const at::Tensor& weights);

SharedGradients normalized_sliding_backward(const std::vector<ThroughStatistics>& gradients, at::TensorList maps,
                                            const std::vector<std::optional<Affine>>& affines,
                                            const at::Tensor& weights, bool of_x);

}  // namespace osprey::kernels::cpu
