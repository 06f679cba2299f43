#include "kernels/cpu/loops/winograd_rows.h"

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/loops/winograd_transforms.h"

namespace osprey::kernels::cpu {
namespace {

/// A transform of one dimension applied to both, of kFrom x kFrom numbers to kTo x kTo.
/// get  (number) -> what is transformed      put  (what it becomes, number)
template <class V, int kFrom, int kTo, class Get, class Transform, class Put>
OSPREY_INLINE void transform_both(const Get& get, const Transform& transform, const Put& put) {
  V columns[kFrom][kTo];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    V column[kFrom];
#pragma GCC unroll 6
    for (int i = 0; i < kFrom; ++i) column[i] = get(i * kFrom + j);
    transform(column, columns[j]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTo; ++i) {
    V line[kFrom], made[kTo];
#pragma GCC unroll 6
    for (int j = 0; j < kFrom; ++j) line[j] = columns[j][i];
    transform(line, made);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) put(made[j], i * kTo + j);
  }
}

/// Calls work(first channel) until all have been met, the last ones again rather than one by one.
template <int kLanes, class Work>
OSPREY_INLINE void for_channels(int64_t channels, const Work& work) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) work(c);
  if (c < channels) work(channels - kLanes);
}

template <class Tile, class Numbers>
OSPREY_INLINE void seen_of(const typename Numbers::Element* const* seen, int64_t channels,
                           typename Numbers::Element* to, int64_t panel_step, int64_t step) {
  using V = typename Numbers::Floats;
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        auto* const first = to + c / kPanelColumns * panel_step + c % kPanelColumns;
        transform_both<V, Tile::kSides, Tile::kSides>(
            [&](int i) __attribute__((always_inline)) { return Numbers::get(seen[i] + c); },
            [](const V* from, V* made) __attribute__((always_inline)) { Tile::seen(from, made); },
            [&](const V& number, int i) __attribute__((always_inline)) { Numbers::put(number, first + i * step); });
      });
}

template <class Tile, class Numbers>
OSPREY_INLINE void taps_of(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                           int64_t step) {
  using V = typename Numbers::Floats;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes) {
      const float* const of_row = taps + row * row_step + c;
      float* const first = to + row * kPanelColumns + c;
      transform_both<V, 3, Tile::kSides>(
          [&](int i) __attribute__((always_inline)) { return Numbers::get(of_row + i * tap_step); },
          [](const V* from, V* made) __attribute__((always_inline)) { Tile::taps(from, made); },
          [&](const V& number, int i) __attribute__((always_inline)) { Numbers::put(number, first + i * step); });
    }
}

template <class Tile, class Numbers>
OSPREY_INLINE void results_of(const float* products, int64_t step, int64_t channels, const float* biases,
                              typename Numbers::Element* const* made) {
  using Singles = Singles<Numbers::kLanes>;
  using V = typename Singles::Floats;
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        const V bias = biases != nullptr ? Singles::get(biases + c) : V{};
        transform_both<V, Tile::kSides, Tile::kResults>(
            [&](int i) __attribute__((always_inline)) { return Singles::get(products + i * step + c); },
            [](const V* from, V* results) __attribute__((always_inline)) { Tile::results(from, results); },
            [&](const V& number, int i) __attribute__((always_inline)) { Numbers::put(number + bias, made[i] + c); });
      });
}

template <class Tile, class Numbers>
OSPREY_INLINE void wanted_of(const typename Numbers::Element* const* wanted, int64_t channels,
                             typename Numbers::Element* to, int64_t step) {
  using V = typename Numbers::Floats;
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        transform_both<V, Tile::kResults, Tile::kSides>(
            [&](int i) __attribute__((always_inline)) { return Numbers::get(wanted[i] + c); },
            [](const V* from, V* made) __attribute__((always_inline)) { Tile::wanted(from, made); },
            [&](const V& number, int i) __attribute__((always_inline)) { Numbers::put(number, to + i * step + c); });
      });
}

template <class Tile, class Numbers>
OSPREY_INLINE void sums_of(const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                           int64_t row_step) {
  using V = typename Numbers::Floats;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes) {
      const float* const of_row = sums + row * kPanelColumns + c;
      float* const first = taps + row * row_step + c;
      transform_both<V, Tile::kSides, 3>(
          [&](int i) __attribute__((always_inline)) { return Numbers::get(of_row + i * step); },
          [](const V* from, V* made) __attribute__((always_inline)) { Tile::sums(from, made); },
          [&](const V& number, int i) __attribute__((always_inline)) { Numbers::put(number, first + i * tap_step); });
    }
}

template <class Numbers>
OSPREY_INLINE void seen_to_factors(int64_t results, const typename Numbers::Element* const* seen, int64_t channels,
                                   typename Numbers::Element* to, int64_t panel_step, int64_t step) {
  if (results == TwoResults::kResults) return seen_of<TwoResults, Numbers>(seen, channels, to, panel_step, step);
  seen_of<FourResults, Numbers>(seen, channels, to, panel_step, step);
}

template <class Numbers>
OSPREY_INLINE void taps_to_factors(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                                   float* to, int64_t step) {
  if (results == TwoResults::kResults) return taps_of<TwoResults, Numbers>(taps, tap_step, row_step, rows, to, step);
  taps_of<FourResults, Numbers>(taps, tap_step, row_step, rows, to, step);
}

template <class Numbers>
OSPREY_INLINE void products_to_results(int64_t results, const float* products, int64_t step, int64_t channels,
                                       const float* biases, typename Numbers::Element* const* made) {
  if (results == TwoResults::kResults) return results_of<TwoResults, Numbers>(products, step, channels, biases, made);
  results_of<FourResults, Numbers>(products, step, channels, biases, made);
}

template <class Numbers>
OSPREY_INLINE void wanted_to_factors(int64_t results, const typename Numbers::Element* const* wanted, int64_t channels,
                                     typename Numbers::Element* to, int64_t step) {
  if (results == TwoResults::kResults) return wanted_of<TwoResults, Numbers>(wanted, channels, to, step);
  wanted_of<FourResults, Numbers>(wanted, channels, to, step);
}

template <class Numbers>
OSPREY_INLINE void sums_to_taps(int64_t results, const float* sums, int64_t step, int64_t rows, float* taps,
                                int64_t tap_step, int64_t row_step) {
  if (results == TwoResults::kResults) return sums_of<TwoResults, Numbers>(sums, step, rows, taps, tap_step, row_step);
  sums_of<FourResults, Numbers>(sums, step, rows, taps, tap_step, row_step);
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_TILES(dispatch, T)                                                                           \
  dispatch(transform_seen, seen_to_factors,                                                                          \
           (int64_t results, const T* const* seen, int64_t channels, T* to, int64_t panel_step, int64_t step),       \
           results, seen, channels, to, panel_step, step)                                                            \
      dispatch(transform_wanted, wanted_to_factors,                                                                  \
               (int64_t results, const T* const* wanted, int64_t channels, T* to, int64_t step), results, wanted,    \
               channels, to, step) dispatch(transform_products, products_to_results,                                 \
                                            (int64_t results, const float* products, int64_t step, int64_t channels, \
                                             const float* biases, T* const* made),                                   \
                                            results, products, step, channels, biases, made)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TILES(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_TILES(OSPREY_DISPATCH_PAIRS, Bfloat16)

OSPREY_DISPATCH_SINGLES(transform_weights, taps_to_factors,
                        (int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                         float* to, int64_t step),
                        results, taps, tap_step, row_step, rows, to, step)

OSPREY_DISPATCH_SINGLES(transform_sums, sums_to_taps,
                        (int64_t results, const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                         int64_t row_step),
                        results, sums, step, rows, taps, tap_step, row_step)

}  // namespace osprey::kernels::cpu
