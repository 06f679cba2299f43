#include "kernels/cpu/loops/product_panels.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int kHalf = 8;  // lanes
static_assert(kPanelColumns == 2 * kHalf);

OSPREY_INLINE const Lanes& lanes(const float* place) { return *reinterpret_cast<const Lanes*>(place); }
OSPREY_INLINE Lanes& lanes(float* place) { return *reinterpret_cast<Lanes*>(place); }

OSPREY_INLINE void multiply(const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length, float* sums,
                            int64_t sums_step) {
  Lanes left[kPanelRows], right[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) {
    left[r] = lanes(sums + r * sums_step);
    right[r] = lanes(sums + r * sums_step + kHalf);
  }
  for (int64_t line = 0; line < lines; ++line) {
    const float* of_line = b + line * b_step;
    for (int64_t place = 0; place < length; ++place, a += kPanelRows, of_line += kPanelColumns) {
      const Lanes first = lanes(of_line), second = lanes(of_line + kHalf);
      for (int r = 0; r < kPanelRows; ++r) {
        left[r] += a[r] * first;
        right[r] += a[r] * second;
      }
    }
  }
  for (int r = 0; r < kPanelRows; ++r) {
    lanes(sums + r * sums_step) = left[r];
    lanes(sums + r * sums_step + kHalf) = right[r];
  }
}

template <int kWidth>
OSPREY_INLINE void pack_of_width(const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* panels,
                                 int64_t panel_step) {
  for (int64_t p = 0; p < pixels; ++p, map += map_step) {
    float* to = panels + p * kWidth;
    int64_t c = 0;
    for (; c + kWidth <= channels; c += kWidth, to += panel_step)
      for (int i = 0; i < kWidth; ++i) to[i] = map[c + i];
    if (c == channels) continue;
    for (int i = 0; i < kWidth; ++i) to[i] = c + i < channels ? map[c + i] : 0;
  }
}

OSPREY_INLINE void pack(const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width,
                        float* panels, int64_t panel_step) {
  if (width == kPanelRows) pack_of_width<kPanelRows>(map, map_step, pixels, channels, panels, panel_step);
  if (width == kPanelColumns) pack_of_width<kPanelColumns>(map, map_step, pixels, channels, panels, panel_step);
}

}  // namespace

OSPREY_DISPATCH(pack_panels, pack,
                (const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width, float* panels,
                 int64_t panel_step),
                map, map_step, pixels, channels, width, panels, panel_step)

OSPREY_DISPATCH(add_panel_products, multiply,
                (const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length, float* sums,
                 int64_t sums_step),
                a, b, b_step, lines, length, sums, sums_step)

}  // namespace osprey::kernels::cpu
