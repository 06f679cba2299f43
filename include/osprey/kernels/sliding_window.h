#pragma once
#include <array>
#include <cstdint>

namespace osprey::kernels {

/// How the window of a convolution moves over a map with zeros around it, not necessarily as many on both sides.
struct SlidingWindow {
  int64_t stride = 1;
  std::array<int64_t, 4> padding = {0, 0, 0, 0};  ///< zeros above, below, left and right
  bool operator==(const SlidingWindow&) const = default;
};

}  // namespace osprey::kernels
