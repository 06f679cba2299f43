#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace osprey::kernels::cpu {

/// One side of a map, of its result, and of the kernel between them.
struct Side {
  int64_t from, to, kernel, stride, before;

  bool sees(int64_t target, int64_t tap) const {
    const int64_t source = target * stride - before + tap;
    return source >= 0 && source < from;
  }
};

/// Both sides of a convolution.
struct Sides {
  /// x        [B, C, H, W]      weights  [.., .., kernel height, kernel width]
  /// padding  zeros above, below, left and right
  /// throws   c10::Error where the window does not move over the map, or has more taps than kMostTaps
  Sides(const at::Tensor& x, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding);
  Side lines, pixels;

  bool are_those_of_1x1() const;  ///< with stride 1 and no padding
};

constexpr int64_t kMostTaps = 7;  ///< of a side; what has been measured, and what arrays on the stack have room for
/// Places of all maps together, from which on packing weights, or the sums of their gradients, is worth its time.
constexpr int64_t kLeastSlidingPlaces = 192;

}  // namespace osprey::kernels::cpu
