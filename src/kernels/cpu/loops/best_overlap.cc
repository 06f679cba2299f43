#include "kernels/cpu/loops/best_overlap.h"

#include "kernels/arithmetic/overlap.h"
#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kLanes = 16;  ///< anchors that are compared side by side

OSPREY_INLINE void improve(const float* __restrict box, const AnchorColumns& anchors, int64_t count, int32_t row,
                           float* __restrict values, float* __restrict best_value, int32_t* __restrict best_row,
                           float* __restrict largest) {
  const Corners one = corners(box);
  const float *__restrict y0 = anchors.ymin, *__restrict x0 = anchors.xmin, *__restrict y1 = anchors.ymax,
              *__restrict x1 = anchors.xmax, *__restrict area = anchors.area;
  for (int64_t i = 0; i < count; ++i) values[i] = matching_overlap(one, {y0[i], x0[i], y1[i], x1[i], area[i]});
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
  for (int64_t i = 0; i < count; ++i) {
    const bool better = values[i] > best_value[i];
    best_row[i] = better ? row : best_row[i];
    best_value[i] = better ? values[i] : best_value[i];
  }
  *largest = 0;
  for (const float lane : lanes) *largest = lane > *largest ? lane : *largest;
}

OSPREY_DISPATCH(improve_best, improve,
                (const float* box, const AnchorColumns& anchors, int64_t count, int32_t row, float* values,
                 float* best_value, int32_t* best_row, float* largest),
                box, anchors, count, row, values, best_value, best_row, largest)

}  // namespace

float improve_best_overlap(const float* box, const AnchorColumns& anchors, int64_t count, int32_t row, float* values,
                           float* best_value, int32_t* best_row) {
  float largest;
  improve_best(box, anchors, count, row, values, best_value, best_row, &largest);
  return largest;
}

}  // namespace osprey::kernels::cpu
