#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "kernels/batch_norm_steps.h"

/// What squeeze and excitation are made of, each a pass over a map by itself. Maps are channels_last, of float32 or
/// half the bits, on any device that there are kernels for; their values are curve((x - mean) * scale + shift).
namespace osprey::kernels {

/// Means of the values over the places of each picture: [B, C] float32.
at::Tensor value_means(const at::Tensor& x, const Affine& affine);

/// The values times the gates of their picture.   gates  [B, C] float32
at::Tensor gated(const at::Tensor& x, const Affine& affine, const at::Tensor& gates);

/// Of a gradient of `gated`, like x: the gradients of the values, like x, and of the gates, [B, C] float32.
std::pair<at::Tensor, at::Tensor> take_back_gates(const at::Tensor& gradient, const at::Tensor& x, const Affine& affine,
                                                  const at::Tensor& gates);

/// What `take_back` (batch_norm_steps.h) makes of the gradient of the values plus that of the means: gradient moments
/// and the gradient of x.
/// of_means  [B, C] float32
std::pair<at::Tensor, at::Tensor> take_back_means(const at::Tensor& of_values, const at::Tensor& of_means,
                                                  const at::Tensor& x, const Affine& affine);

}  // namespace osprey::kernels
