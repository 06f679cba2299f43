#include "kernels/cpu/loops/winograd_rows.h"

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/product_panels.h"

namespace osprey::kernels::cpu {
namespace {

/// Calls work(first channel) until all have been met, the last ones again rather than one by one.
template <int kLanes, class Work>
OSPREY_INLINE void for_channels(int64_t channels, const Work& work) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) work(c);
  if (c < channels) work(channels - kLanes);
}

template <class Numbers, class Element = typename Numbers::Element>
OSPREY_INLINE void seen_to_factors(const Element* const* seen, int64_t channels, Element* to, int64_t panel_step,
                                   int64_t step) {
  using V = Numbers;
  for_channels<V::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        typename V::Floats lines[4][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const auto d0 = V::get(seen[j] + c), d1 = V::get(seen[4 + j] + c), d2 = V::get(seen[8 + j] + c),
                     d3 = V::get(seen[12 + j] + c);
          lines[0][j] = d0 - d2;
          lines[1][j] = d1 + d2;
          lines[2][j] = d2 - d1;
          lines[3][j] = d1 - d3;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          Element* const line = to + i * 4 * step + c / kPanelColumns * panel_step + c % kPanelColumns;
          V::put(lines[i][0] - lines[i][2], line);
          V::put(lines[i][1] + lines[i][2], line + step);
          V::put(lines[i][2] - lines[i][1], line + 2 * step);
          V::put(lines[i][1] - lines[i][3], line + 3 * step);
        }
      });
}

template <int kLanes>
OSPREY_INLINE void taps_to_factors(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                                   int64_t step) {
  using V = Singles<kLanes>;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const float* const of_row = taps + row * row_step + c;
      typename V::Floats lines[4][3];
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        const auto g0 = V::get(of_row + j * tap_step), g1 = V::get(of_row + (3 + j) * tap_step),
                   g2 = V::get(of_row + (6 + j) * tap_step), ends = 0.5f * (g0 + g2), middle = 0.5f * g1;
        lines[0][j] = g0;
        lines[1][j] = ends + middle;
        lines[2][j] = ends - middle;
        lines[3][j] = g2;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const auto ends = 0.5f * (lines[i][0] + lines[i][2]), middle = 0.5f * lines[i][1];
        float* const line = to + i * 4 * step + row * kPanelColumns + c;
        V::put(lines[i][0], line);
        V::put(ends + middle, line + step);
        V::put(ends - middle, line + 2 * step);
        V::put(lines[i][2], line + 3 * step);
      }
    }
}

template <class Numbers, class Element = typename Numbers::Element>
OSPREY_INLINE void products_to_results(const float* products, int64_t step, int64_t channels, const float* biases,
                                       Element* const* made) {
  using V = Singles<Numbers::kLanes>;
  for_channels<V::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        typename V::Floats lines[2][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const float* const column = products + j * step + c;
          const auto m0 = V::get(column), m1 = V::get(column + 4 * step), m2 = V::get(column + 8 * step),
                     m3 = V::get(column + 12 * step);
          lines[0][j] = m0 + m1 + m2;
          lines[1][j] = m1 - m2 - m3;
        }
        const auto bias = biases != nullptr ? V::get(biases + c) : typename V::Floats{};
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
          Numbers::put(lines[i][0] + lines[i][1] + lines[i][2] + bias, made[i * 2] + c);
          Numbers::put(lines[i][1] - lines[i][2] - lines[i][3] + bias, made[i * 2 + 1] + c);
        }
      });
}

template <class Numbers, class Element = typename Numbers::Element>
OSPREY_INLINE void wanted_to_factors(const Element* const* wanted, int64_t channels, Element* to, int64_t step) {
  using V = Numbers;
  for_channels<V::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        typename V::Floats lines[4][2];
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          const auto e0 = V::get(wanted[j] + c), e1 = V::get(wanted[2 + j] + c);
          lines[0][j] = e0;
          lines[1][j] = e0 + e1;
          lines[2][j] = e0 - e1;
          lines[3][j] = -e1;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          Element* const line = to + i * 4 * step + c;
          V::put(lines[i][0], line);
          V::put(lines[i][0] + lines[i][1], line + step);
          V::put(lines[i][0] - lines[i][1], line + 2 * step);
          V::put(-lines[i][1], line + 3 * step);
        }
      });
}

template <int kLanes>
OSPREY_INLINE void sums_to_taps(const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                                int64_t row_step) {
  using V = Singles<kLanes>;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
      typename V::Floats lines[3][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const float* const column = sums + j * step + row * kPanelColumns + c;
        const auto u1 = V::get(column + 4 * step), u2 = V::get(column + 8 * step), both = 0.5f * (u1 + u2);
        lines[0][j] = V::get(column) + both;
        lines[1][j] = 0.5f * (u1 - u2);
        lines[2][j] = both + V::get(column + 12 * step);
      }
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        const auto both = 0.5f * (lines[i][1] + lines[i][2]);
        float* const line = taps + row * row_step + i * 3 * tap_step + c;
        V::put(lines[i][0] + both, line);
        V::put(0.5f * (lines[i][1] - lines[i][2]), line + tap_step);
        V::put(both + lines[i][3], line + 2 * tap_step);
      }
    }
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_TILES(dispatch, T)                                                                           \
  dispatch(transform_seen, seen_to_factors,                                                                          \
           (const T* const* seen, int64_t channels, T* to, int64_t panel_step, int64_t step), seen, channels, to,    \
           panel_step, step)                                                                                         \
      dispatch(transform_wanted, wanted_to_factors, (const T* const* wanted, int64_t channels, T* to, int64_t step), \
               wanted, channels, to, step)                                                                           \
          dispatch(transform_products, products_to_results,                                                          \
                   (const float* products, int64_t step, int64_t channels, const float* biases, T* const* made),     \
                   products, step, channels, biases, made)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TILES(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_TILES(OSPREY_DISPATCH_PAIRS, Bfloat16)

OSPREY_DISPATCH_LANES(transform_weights, taps_to_factors,
                      (const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to, int64_t step),
                      taps, tap_step, row_step, rows, to, step)

OSPREY_DISPATCH_LANES(transform_sums, sums_to_taps,
                      (const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step, int64_t row_step),
                      sums, step, rows, taps, tap_step, row_step)

}  // namespace osprey::kernels::cpu
