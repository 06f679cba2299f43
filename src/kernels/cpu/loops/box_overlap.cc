#include "kernels/cpu/loops/box_overlap.h"

#include "kernels/arithmetic/overlap.h"
#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

constexpr size_t kBlock = 64;  // boxes that are compared before the answer is looked at

OSPREY_INLINE void compare(const BoxColumns& many, size_t index, size_t count, float threshold, bool* result) {
  const float* __restrict ymins = many.ymin;
  const float* __restrict xmins = many.xmin;
  const float* __restrict ymaxs = many.ymax;
  const float* __restrict xmaxs = many.xmax;
  const float* __restrict areas = many.area;
  const auto box = [&](size_t j) __attribute__((always_inline)) {
    return Corners{ymins[j], xmins[j], ymaxs[j], xmaxs[j], areas[j]};
  };
  const Corners one = box(index);
  *result = false;
  if (one.area <= 0) return;
  for (size_t end = count; end > 0 && !*result;) {
    const size_t begin = end > kBlock ? end - kBlock : 0;
    int above = 0;
    for (size_t j = begin; j < end; ++j) {
      const float common = intersection(one, box(j));
      above |= static_cast<int>(!(areas[j] <= 0)) &
               static_cast<int>(suppresses(common / (one.area + areas[j] - common), threshold));
    }
    *result = above != 0;
    end = begin;
  }
}

OSPREY_DISPATCH(compare_all, compare,
                (const BoxColumns& many, size_t index, size_t count, float threshold, bool* result), many, index, count,
                threshold, result)

}  // namespace

bool any_overlap_above(const BoxColumns& many, size_t index, size_t count, float threshold) {
  bool result;
  compare_all(many, index, count, threshold, &result);
  return result;
}

}  // namespace osprey::kernels::cpu
