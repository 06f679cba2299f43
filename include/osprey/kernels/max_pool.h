#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

constexpr int64_t kMostPoolKernel = 15;  ///< whose taps a byte can number

/// The largest value of each channel that a square window sees. What the window's padding adds does not count, and
/// every window has to see some of the map. Gradients flow to the first of equal values; a value that is not a number
/// is the largest.
///
/// x         [B, C, H, W] of float32 or half the bits
/// kernel    side of the window, 1 .. kMostPoolKernel
/// returns   [B, C, lines, pixels] channels_last
/// throws    c10::Error for other types and shapes, and for windows that may see nothing of the map
/// operator  osprey::max_pool, osprey::max_pool_backward
at::Tensor max_pool(const at::Tensor& x, int64_t kernel, const SlidingWindow& window);
/// Whether it takes such a map and window.
bool takes_max_pool(const at::Tensor& x, int64_t kernel);

}  // namespace osprey::kernels
