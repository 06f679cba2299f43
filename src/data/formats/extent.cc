#include "extent.h"

#include <algorithm>
#include <cmath>

namespace osprey::data {

Extent extent_of_outline(const double* xy, size_t points) {
  Extent extent{xy[0], xy[1], xy[0], xy[1], 0};
  for (size_t i = 0; i < points; ++i) {
    const double x = xy[2 * i], y = xy[2 * i + 1];
    const size_t next = (i + 1) % points;
    extent.xmin = std::min(extent.xmin, x);
    extent.ymin = std::min(extent.ymin, y);
    extent.xmax = std::max(extent.xmax, x);
    extent.ymax = std::max(extent.ymax, y);
    extent.area += (x * xy[2 * next + 1] - xy[2 * next] * y) / 2;  // the shoelace formula
  }
  extent.area = std::abs(extent.area);
  return extent;
}

}  // namespace osprey::data
