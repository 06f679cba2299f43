#pragma once
#include <cstdint>

#include "kernels/arithmetic/inline.h"

namespace osprey::kernels {

/// Sums over rows of x - center and of its square become those of x and of its square. Sums of differences from a value
/// of the map stay exact where the mean is far from zero.
OSPREY_INLINE void moments_from(float center, int64_t rows, double& sum, double& square) {
  const double from = center, count = static_cast<double>(rows);
  square += 2 * from * sum + count * from * from;
  sum += count * from;
}

}  // namespace osprey::kernels
