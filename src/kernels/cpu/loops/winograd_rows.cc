#include "kernels/cpu/loops/winograd_rows.h"

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/product_panels.h"

namespace osprey::kernels::cpu {
namespace {

template <int kLanes>
struct Vectors {
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  static OSPREY_INLINE const Lanes& at(const float* place) { return *reinterpret_cast<const Lanes*>(place); }
  static OSPREY_INLINE Lanes& at(float* place) { return *reinterpret_cast<Lanes*>(place); }
};

/// Calls work(first channel) until all have been met, the last ones again rather than one by one.
template <int kLanes, class Work>
OSPREY_INLINE void for_channels(int64_t channels, const Work& work) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) work(c);
  if (c < channels) work(channels - kLanes);
}

template <int kLanes>
OSPREY_INLINE void seen_to_factors(const float* const* seen, int64_t channels, float* to, int64_t panel_step,
                                   int64_t step) {
  using V = Vectors<kLanes>;
  for_channels<kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        typename V::Lanes lines[4][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const auto d0 = V::at(seen[j] + c), d1 = V::at(seen[4 + j] + c), d2 = V::at(seen[8 + j] + c),
                     d3 = V::at(seen[12 + j] + c);
          lines[0][j] = d0 - d2;
          lines[1][j] = d1 + d2;
          lines[2][j] = d2 - d1;
          lines[3][j] = d1 - d3;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          float* const line = to + i * 4 * step + c / kPanelColumns * panel_step + c % kPanelColumns;
          V::at(line) = lines[i][0] - lines[i][2];
          V::at(line + step) = lines[i][1] + lines[i][2];
          V::at(line + 2 * step) = lines[i][2] - lines[i][1];
          V::at(line + 3 * step) = lines[i][1] - lines[i][3];
        }
      });
}

template <int kLanes>
OSPREY_INLINE void taps_to_factors(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                                   int64_t step) {
  using V = Vectors<kLanes>;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const float* const of_row = taps + row * row_step + c;
      typename V::Lanes lines[4][3];
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
        const auto g0 = V::at(of_row + j * tap_step), g1 = V::at(of_row + (3 + j) * tap_step),
                   g2 = V::at(of_row + (6 + j) * tap_step), ends = 0.5f * (g0 + g2), middle = 0.5f * g1;
        lines[0][j] = g0;
        lines[1][j] = ends + middle;
        lines[2][j] = ends - middle;
        lines[3][j] = g2;
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const auto ends = 0.5f * (lines[i][0] + lines[i][2]), middle = 0.5f * lines[i][1];
        float* const line = to + i * 4 * step + row * kPanelColumns + c;
        V::at(line) = lines[i][0];
        V::at(line + step) = ends + middle;
        V::at(line + 2 * step) = ends - middle;
        V::at(line + 3 * step) = lines[i][2];
      }
    }
}

template <int kLanes>
OSPREY_INLINE void products_to_results(const float* products, int64_t step, int64_t channels, const float* biases,
                                       float* const* made) {
  using V = Vectors<kLanes>;
  for_channels<kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        typename V::Lanes lines[2][4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const float* const column = products + j * step + c;
          const auto m0 = V::at(column), m1 = V::at(column + 4 * step), m2 = V::at(column + 8 * step),
                     m3 = V::at(column + 12 * step);
          lines[0][j] = m0 + m1 + m2;
          lines[1][j] = m1 - m2 - m3;
        }
        const auto bias = biases != nullptr ? V::at(biases + c) : typename V::Lanes{};
#pragma GCC unroll 2
        for (int i = 0; i < 2; ++i) {
          V::at(made[i * 2] + c) = lines[i][0] + lines[i][1] + lines[i][2] + bias;
          V::at(made[i * 2 + 1] + c) = lines[i][1] - lines[i][2] - lines[i][3] + bias;
        }
      });
}

template <int kLanes>
OSPREY_INLINE void wanted_to_factors(const float* const* wanted, int64_t channels, float* to, int64_t step) {
  using V = Vectors<kLanes>;
  for_channels<kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        typename V::Lanes lines[4][2];
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) {
          const auto e0 = V::at(wanted[j] + c), e1 = V::at(wanted[2 + j] + c);
          lines[0][j] = e0;
          lines[1][j] = e0 + e1;
          lines[2][j] = e0 - e1;
          lines[3][j] = -e1;
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) {
          float* const line = to + i * 4 * step + c;
          V::at(line) = lines[i][0];
          V::at(line + step) = lines[i][0] + lines[i][1];
          V::at(line + 2 * step) = lines[i][0] - lines[i][1];
          V::at(line + 3 * step) = -lines[i][1];
        }
      });
}

template <int kLanes>
OSPREY_INLINE void sums_to_taps(const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                                int64_t row_step) {
  using V = Vectors<kLanes>;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
      typename V::Lanes lines[3][4];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        const float* const column = sums + j * step + row * kPanelColumns + c;
        const auto u1 = V::at(column + 4 * step), u2 = V::at(column + 8 * step), both = 0.5f * (u1 + u2);
        lines[0][j] = V::at(column) + both;
        lines[1][j] = 0.5f * (u1 - u2);
        lines[2][j] = both + V::at(column + 12 * step);
      }
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
        const auto both = 0.5f * (lines[i][1] + lines[i][2]);
        float* const line = taps + row * row_step + i * 3 * tap_step + c;
        V::at(line) = lines[i][0] + both;
        V::at(line + tap_step) = 0.5f * (lines[i][1] - lines[i][2]);
        V::at(line + 2 * tap_step) = both + lines[i][3];
      }
    }
}

}  // namespace

OSPREY_DISPATCH_LANES(transform_seen, seen_to_factors,
                      (const float* const* seen, int64_t channels, float* to, int64_t panel_step, int64_t step), seen,
                      channels, to, panel_step, step)

OSPREY_DISPATCH_LANES(transform_weights, taps_to_factors,
                      (const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to, int64_t step),
                      taps, tap_step, row_step, rows, to, step)

OSPREY_DISPATCH_LANES(transform_products, products_to_results,
                      (const float* products, int64_t step, int64_t channels, const float* biases, float* const* made),
                      products, step, channels, biases, made)

OSPREY_DISPATCH_LANES(transform_wanted, wanted_to_factors,
                      (const float* const* wanted, int64_t channels, float* to, int64_t step), wanted, channels, to,
                      step)

OSPREY_DISPATCH_LANES(transform_sums, sums_to_taps,
                      (const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step, int64_t row_step),
                      sums, step, rows, taps, tap_step, row_step)

}  // namespace osprey::kernels::cpu
