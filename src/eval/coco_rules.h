#pragma once
#include <array>
#include <cmath>

namespace osprey::eval {

/// Rules of COCO's evaluation that its parts share.

inline constexpr int kRecalls = 101, kMaxDetections = 100;  // the second per class and image

/// Numpy.linspace(0, 1, 101), with the same rounding.
inline double recall_threshold(int r) { return r == kRecalls - 1 ? 1.0 : r * (1.0 / 100); }

/// Objects outside a range of areas need not be found; detections outside it that find nothing are not wrong.
using AreaRange = std::array<double, 2>;
inline constexpr AreaRange kAllAreas = {0, 1e5 * 1e5};
inline bool outside(double area, const AreaRange& range) { return area < range[0] || area > range[1]; }

/// Intersection over union of two boxes [x, y, width, height]; with a crowd, over the detection's area.
inline double overlap(const std::array<double, 4>& d, const std::array<double, 4>& g, bool crowd) {
  const double w = std::fmin(d[2] + d[0], g[2] + g[0]) - std::fmax(d[0], g[0]);
  if (w <= 0) return 0;
  const double h = std::fmin(d[3] + d[1], g[3] + g[1]) - std::fmax(d[1], g[1]);
  if (h <= 0) return 0;
  const double both = w * h, of_detection = d[2] * d[3];
  return both / (crowd ? of_detection : of_detection + g[2] * g[3] - both);
}

}  // namespace osprey::eval
