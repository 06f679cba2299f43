#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

/// The largest value of each channel that a square window sees. What the window's padding adds does not count, and
/// every window has to see some of the map. Gradients flow to the first of equal values; a value that is not a number
/// is the largest.
///
/// x         [B, C, H, W] of float32 or half the bits
/// kernel    side of the window, 1 .. 15
/// returns   [B, C, lines, pixels] channels_last
/// throws    c10::Error for other types and shapes
/// operator  osprey::max_pool, osprey::max_pool_backward
at::Tensor max_pool(const at::Tensor& x, int64_t kernel, const SlidingWindow& window);
bool takes_max_pool(const at::Tensor& x);

}  // namespace osprey::kernels
