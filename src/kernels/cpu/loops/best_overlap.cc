#include "kernels/cpu/loops/best_overlap.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kLanes = 16;  ///< anchors that are compared side by side

OSPREY_INLINE void improve(const float* __restrict box, const AnchorColumns& anchors, int64_t count, int32_t row,
                           float* __restrict values, float* __restrict best_value, int32_t* __restrict best_row,
                           float* __restrict largest) {
  const float ymin = box[0], xmin = box[1], ymax = box[2], xmax = box[3], box_area = (ymax - ymin) * (xmax - xmin);
  const float *__restrict y0 = anchors.ymin, *__restrict x0 = anchors.xmin, *__restrict y1 = anchors.ymax,
              *__restrict x1 = anchors.xmax, *__restrict area = anchors.area;
  for (int64_t i = 0; i < count; ++i) {
    const float top = ymin > y0[i] ? ymin : y0[i], bottom = ymax < y1[i] ? ymax : y1[i];
    const float left = xmin > x0[i] ? xmin : x0[i], right = xmax < x1[i] ? xmax : x1[i];
    const float height = bottom - top, width = right - left;
    const float common = (height > 0.0f ? height : 0.0f) * (width > 0.0f ? width : 0.0f);
    const float joined = box_area + area[i] - common;
    const float value = common / joined;
    values[i] = common == 0.0f ? 0.0f : value;
  }
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
