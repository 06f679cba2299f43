#include "kernels/cpu/loops/pixel_rows.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Numbers after which channels and registers begin anew together.
constexpr int64_t kPeriod = 48;

template <class In, class Out>
OSPREY_INLINE void scale_all(const In* __restrict from, int64_t pixels, const float* scale, const float* offset,
                             Out* __restrict to) {
  float scales[kPeriod], offsets[kPeriod];
  for (int64_t i = 0; i < kPeriod; ++i) {
    scales[i] = scale[i % 3];
    offsets[i] = offset[i % 3];
  }
  int64_t count = pixels * 3;
  for (; count >= kPeriod; count -= kPeriod, from += kPeriod, to += kPeriod)
    for (int64_t i = 0; i < kPeriod; ++i) store(to + i, load(from + i) * scales[i] + offsets[i]);
  for (int64_t i = 0; i < count; ++i) store(to + i, load(from + i) * scales[i] + offsets[i]);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): In and Out are types
#define OSPREY_DISPATCH_PIXELS(In, Out)                                                                             \
  OSPREY_DISPATCH(scale_pixels, scale_all,                                                                          \
                  (const In* from, int64_t pixels, const float* scale, const float* offset, Out* to), from, pixels, \
                  scale, offset, to)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_PIXELS(uint8_t, float)
OSPREY_DISPATCH_PIXELS(uint8_t, Bfloat16)
OSPREY_DISPATCH_PIXELS(uint8_t, Float16)
OSPREY_DISPATCH_PIXELS(float, float)
OSPREY_DISPATCH_PIXELS(float, Bfloat16)
OSPREY_DISPATCH_PIXELS(float, Float16)

}  // namespace osprey::kernels::cpu
