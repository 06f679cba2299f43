#pragma once
#include <cstdint>

/// The inner loop of the arg-max matching, compiled for several instruction sets of which the best that the machine has
/// is taken; all give the same bits.
namespace osprey::kernels::cpu {

/// Anchors, coordinate by coordinate.
struct AnchorColumns {
  const float *ymin, *xmin, *ymax, *xmax, *area;
};

/// The overlaps (intersection over union) of a box with `count` anchors, a multiple of 16. Where one is above what the
/// anchor has had so far, it and `row` take the place of that.
///
/// box      [4] ymin, xmin, ymax, xmax
/// values   [count] the overlaps: the same operations, in the same order, as boxes::iou
/// returns  the largest of them
float improve_best_overlap(const float* box, const AnchorColumns& anchors, int64_t count, int32_t row, float* values,
                           float* best_value, int32_t* best_row);

}  // namespace osprey::kernels::cpu
