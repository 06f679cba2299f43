#pragma once
#include <cstddef>

namespace osprey::data {

/// The box around a shape, and the shape's area; in whatever unit its points have.
struct Extent {
  double xmin = 0, ymin = 0, xmax = 0, ymax = 0;
  double area = 0;  ///< 0: that of the box
};

/// Of an outline.
/// xy  x, y, x, y, ... of at least one point
Extent extent_of_outline(const double* xy, size_t points);

}  // namespace osprey::data
