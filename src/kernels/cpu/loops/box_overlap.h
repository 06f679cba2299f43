#pragma once
#include <cstddef>

/// The inner loop of non-maximum suppression, compiled for several instruction sets of which the best that the machine
/// has is taken; all give the same bits.
namespace osprey::kernels::cpu {

/// Boxes with their corners in order, coordinate by coordinate.
struct BoxColumns {
  const float *ymin, *xmin, *ymax, *xmax, *area;
};

/// Whether box `index` of `many` has an overlap (intersection over union) above `threshold`, >= 0, with one of the
/// first `count`. Boxes without area overlap nothing. Looks at the last ones first.
bool any_overlap_above(const BoxColumns& many, size_t index, size_t count, float threshold);

}  // namespace osprey::kernels::cpu
