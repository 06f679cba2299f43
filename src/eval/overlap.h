#pragma once
#include <algorithm>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

inline double area(const BoxPx& box) { return (box.ymax - box.ymin) * (box.xmax - box.xmin); }

inline double intersection(const BoxPx& a, const BoxPx& b) {
  const double height = std::max(0.0, std::min(a.ymax, b.ymax) - std::max(a.ymin, b.ymin));
  const double width = std::max(0.0, std::min(a.xmax, b.xmax) - std::max(a.xmin, b.xmin));
  return height * width;
}

/// Intersection over union; 0 where nothing is shared, boxes without area included.
inline double iou(const BoxPx& a, const BoxPx& b) {
  const double both = intersection(a, b);
  return both > 0 ? both / (area(a) + area(b) - both) : 0;
}

}  // namespace osprey::eval
