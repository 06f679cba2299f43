#pragma once
#include <ATen/core/Tensor.h>

/// Convolutions of 3 x 3, stride 1 and padding 1 by tiles of 2 x 2 places; see loops/winograd_rows.h. Maps are
/// channels_last, of any type that maps have.
namespace osprey::kernels::cpu {

/// Whether there are channels and places enough for what follows, and I fills panels.
bool fits_winograd(const at::Tensor& map, int64_t O, int64_t I);

/// weights     [O, I, 3, 3] float32
/// biases      [columns] float32, contiguous, or undefined
/// transposed  of the gradient of the map: what has O channels becomes I, and the window is turned around
/// result      [B, columns, H, W], of the type of x
void convolve_in_tiles(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                       const at::Tensor& result);

/// The gradient of the weights, [O, 3, 3, I] float32.
/// gradient  [B, O, H, W]      x  [B, I, H, W], of the same type
at::Tensor weight_gradient_in_tiles(const at::Tensor& gradient, const at::Tensor& x);

}  // namespace osprey::kernels::cpu
