#pragma once
#include <algorithm>
#include <cstdint>

namespace osprey::nn {

/// The multiple of `divisor` nearest to `value` (halves go up), but at least `least` and not more than a tenth below
/// `value`: how the MobileNet family rounds its depths.
inline int64_t make_divisible(double value, int64_t divisor, int64_t least) {
  int64_t result = std::max(least, static_cast<int64_t>(value + static_cast<double>(divisor) / 2) / divisor * divisor);
  if (static_cast<double>(result) < 0.9 * value) result += divisor;
  return result;
}

}  // namespace osprey::nn
