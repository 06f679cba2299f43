#pragma once
#include "kernels/arithmetic/inline.h"

/// Intersection over union. Files that use it are compiled without contraction of products and sums, so that every
/// machine gives the same bits.
namespace osprey::kernels {

/// A box whose corners are in order.
struct Corners {
  float ymin, xmin, ymax, xmax, area;
};

OSPREY_INLINE float lesser(float a, float b) { return b < a ? b : a; }
OSPREY_INLINE float greater(float a, float b) { return a < b ? b : a; }

/// A box as it is.
OSPREY_INLINE Corners corners(const float* box) {
  return {box[0], box[1], box[2], box[3], (box[2] - box[0]) * (box[3] - box[1])};
}
/// A box whose corners may be flipped.
OSPREY_INLINE Corners ordered_corners(const float* box) {
  const float ymin = lesser(box[0], box[2]), xmin = lesser(box[1], box[3]);
  const float ymax = greater(box[0], box[2]), xmax = greater(box[1], box[3]);
  return {ymin, xmin, ymax, xmax, (ymax - ymin) * (xmax - xmin)};
}

/// The area that two boxes share.
OSPREY_INLINE float intersection(const Corners& a, const Corners& b) {
  const float height = lesser(a.ymax, b.ymax) - greater(a.ymin, b.ymin);
  const float width = lesser(a.xmax, b.xmax) - greater(a.xmin, b.xmin);
  return greater(height, 0.0f) * greater(width, 0.0f);
}

/// As matching has it: the same operations, in the same order, as boxes::iou; 0 where nothing is shared.
OSPREY_INLINE float matching_overlap(const Corners& box, const Corners& anchor) {
  const float common = intersection(box, anchor);
  return common == 0.0f ? 0.0f : common / (box.area + anchor.area - common);
}

/// As suppression has it: boxes without area overlap nothing. Of boxes without end it is NaN, which suppresses.
OSPREY_INLINE float suppressing_overlap(const Corners& a, const Corners& b) {
  if (a.area <= 0 || b.area <= 0) return 0;
  const float common = intersection(a, b);
  return common / (a.area + b.area - common);
}

/// Whether an overlap of a box with a better one drops it.
OSPREY_INLINE bool suppresses(float overlap, float threshold) { return !(overlap <= threshold); }

}  // namespace osprey::kernels
