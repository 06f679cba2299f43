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

/// Puts two transforms of the same kind, the first of which is made before, as pairs.
/// transform  (what is done with its numbers): transforms one of the two      to  of the first pair
template <class Pairs, int kNumbers, class Transform>
OSPREY_INLINE void put_pairs(const Transform& transform, float* to, int64_t step) {
  using V = typename Pairs::Floats;
  typename Pairs::Halves first[kNumbers];
  transform(
      0, [&](const V& number, int i) __attribute__((always_inline)) { first[i] = Pairs::halves(number); });
  transform(
      1, [&](const V& number, int i) __attribute__((always_inline)) {
        Singles<Pairs::kLanes>::put(Pairs::pairs(first[i], Pairs::halves(number)), to + i * step);
      });
}

template <class Tile, class Numbers, class Put>
OSPREY_INLINE void seen_at(const typename Numbers::Element* const* seen, int64_t c, const Put& put) {
  using V = typename Numbers::Floats;
  transform_both<V, Tile::kSides, Tile::kSides>(
      [&](int i) __attribute__((always_inline)) { return Numbers::get(seen[i] + c); },
      [](const V* from, V* made) __attribute__((always_inline)) { Tile::seen(from, made); }, put);
}

template <class Tile, class Numbers>
OSPREY_INLINE void seen_of(const typename Numbers::Element* const* seen, int64_t channels,
                           typename Numbers::Element* to, int64_t panel_step, int64_t step) {
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        auto* const first = to + c / kPanelColumns * panel_step + c % kPanelColumns;
        seen_at<Tile, Numbers>(
            seen, c, [&](const typename Numbers::Floats& number, int i) __attribute__((always_inline)) {
              Numbers::put(number, first + i * step);
            });
      });
}

template <class Tile, class Pairs>
OSPREY_INLINE void seen_pairs_of(const Bfloat16* const* seen, const Bfloat16* const* other, int64_t channels, float* to,
                                 int64_t panel_step, int64_t step) {
  for_channels<Pairs::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        put_pairs<Pairs, Tile::kSides * Tile::kSides>(
            [&](int which, const auto& put)
                __attribute__((always_inline)) { seen_at<Tile, Pairs>(which == 0 ? seen : other, c, put); },
            to + c / kPanelColumns * panel_step + c % kPanelColumns, step);
      });
}

template <class Tile, class Numbers, class Put>
OSPREY_INLINE void taps_of_row(const float* taps, int64_t tap_step, const Put& put) {
  using V = typename Numbers::Floats;
  transform_both<V, 3, Tile::kSides>(
      [&](int i) __attribute__((always_inline)) { return Numbers::get(taps + i * tap_step); },
      [](const V* from, V* made) __attribute__((always_inline)) { Tile::taps(from, made); }, put);
}

template <class Tile, class Numbers>
OSPREY_INLINE void taps_of(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                           int64_t step) {
  for (int64_t row = 0; row < rows; ++row, taps += row_step, to += kPanelColumns)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes)
      taps_of_row<Tile, Numbers>(
          taps + c, tap_step, [&](const typename Numbers::Floats& number, int i) __attribute__((always_inline)) {
            Numbers::put(number, to + i * step + c);
          });
}

template <class Tile, class Pairs>
OSPREY_INLINE void tap_pairs_of(const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to,
                                int64_t step) {
  using Numbers = Singles<Pairs::kLanes>;
  constexpr int kNumbers = Tile::kSides * Tile::kSides;
  for (int64_t row = 0; row < rows; row += 2, taps += 2 * row_step, to += kPanelColumns)
    for (int64_t c = 0; c < kPanelColumns; c += Numbers::kLanes)
      put_pairs<Pairs, kNumbers>(
          [&](int which, const auto& put) __attribute__((always_inline)) {
            if (row + which < rows) return taps_of_row<Tile, Numbers>(taps + which * row_step + c, tap_step, put);
            for (int i = 0; i < kNumbers; ++i) put(typename Numbers::Floats{}, i);
          },
          to + c, step);
}

/// end  (number) -> what becomes of it at last
template <class Tile, class Numbers, class End>
OSPREY_INLINE void results_of(const float* products, int64_t step, int64_t channels, const float* biases,
                              const End& end, typename Numbers::Element* const* made,
                              const typename Numbers::Element* const* next) {
  using Singles = Singles<Numbers::kLanes>;
  using V = typename Singles::Floats;
  constexpr int64_t kOfALine = 64 / sizeof(typename Numbers::Element);
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        if (c % kOfALine == 0)
          for (int i = 0; i < Tile::kResults * Tile::kResults; ++i) __builtin_prefetch(next[i] + c, 1, 3);
        const V bias = biases != nullptr ? Singles::get(biases + c) : V{};
        transform_both<V, Tile::kSides, Tile::kResults>(
            [&](int i) __attribute__((always_inline)) { return Singles::get(products + i * step + c); },
            [](const V* from, V* results) __attribute__((always_inline)) { Tile::results(from, results); },
            [&](const V& number, int i)
                __attribute__((always_inline)) { Numbers::put(end(V(number + bias)), made[i] + c); });
      });
}

template <class Tile, class Numbers, class Put>
OSPREY_INLINE void wanted_at(const typename Numbers::Element* const* wanted, int64_t c, const Put& put) {
  using V = typename Numbers::Floats;
  transform_both<V, Tile::kResults, Tile::kSides>(
      [&](int i) __attribute__((always_inline)) { return Numbers::get(wanted[i] + c); },
      [](const V* from, V* made) __attribute__((always_inline)) { Tile::wanted(from, made); }, put);
}

template <class Tile, class Numbers>
OSPREY_INLINE void wanted_of(const float* const* wanted, int64_t channels, float* to, int64_t step) {
  for_channels<Numbers::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        wanted_at<Tile, Numbers>(
            wanted, c, [&](const typename Numbers::Floats& number, int i) __attribute__((always_inline)) {
              Numbers::put(number, to + i * step + c);
            });
      });
}

template <class Tile, class Pairs>
OSPREY_INLINE void wanted_pairs_of(const Bfloat16* const* wanted, const Bfloat16* const* other, int64_t channels,
                                   float* to, int64_t step) {
  for_channels<Pairs::kLanes>(
      channels, [&](int64_t c) __attribute__((always_inline)) {
        put_pairs<Pairs, Tile::kSides * Tile::kSides>(
            [&](int which, const auto& put)
                __attribute__((always_inline)) { wanted_at<Tile, Pairs>(which == 0 ? wanted : other, c, put); },
            to + c, step);
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

/// Calls `work` with the transforms of tiles of so many results in a line.
template <class Work>
OSPREY_INLINE void with_tile(int64_t results, const Work& work) {
  if (results == TwoResults::kResults) return work(TwoResults{});
  if (results == ThreeResults::kResults) return work(ThreeResults{});
  work(FourResults{});
}

template <class Numbers>
OSPREY_INLINE void seen_to_factors(int64_t results, const typename Numbers::Element* const* seen, int64_t channels,
                                   typename Numbers::Element* to, int64_t panel_step, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile)
                   __attribute__((always_inline)) { seen_of<Tile, Numbers>(seen, channels, to, panel_step, step); });
}

template <class Pairs>
OSPREY_INLINE void seen_to_pairs(int64_t results, const Bfloat16* const* seen, const Bfloat16* const* other,
                                 int64_t channels, float* to, int64_t panel_step, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        seen_pairs_of<Tile, Pairs>(seen, other, channels, to, panel_step, step);
      });
}

template <class Numbers>
OSPREY_INLINE void taps_to_factors(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                                   float* to, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        taps_of<Tile, Numbers>(taps, tap_step, row_step, rows, to, step);
      });
}

template <class Pairs>
OSPREY_INLINE void taps_to_pairs(int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows,
                                 float* to, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        tap_pairs_of<Tile, Pairs>(taps, tap_step, row_step, rows, to, step);
      });
}

template <class Numbers>
OSPREY_INLINE void products_to_results(int64_t results, const float* products, int64_t step, int64_t channels,
                                       const float* biases, const Clamp* clamp, typename Numbers::Element* const* made,
                                       const typename Numbers::Element* const* next) {
  using V = typename Singles<Numbers::kLanes>::Floats;
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        if (clamp == nullptr) {
          results_of<Tile, Numbers>(
              products, step, channels, biases, [](const V& number) __attribute__((always_inline)) { return number; },
              made, next);
        } else {
          const V low = V{} + clamp->low, high = V{} + clamp->high;
          results_of<Tile, Numbers>(
              products, step, channels, biases,
              [&](V number) __attribute__((always_inline)) {
                number = number < low ? low : number;
                return number > high ? high : number;
              },
              made, next);
        }
      });
}

template <class Numbers>
OSPREY_INLINE void wanted_to_factors(int64_t results, const float* const* wanted, int64_t channels, float* to,
                                     int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile)
                   __attribute__((always_inline)) { wanted_of<Tile, Numbers>(wanted, channels, to, step); });
}

template <class Pairs>
OSPREY_INLINE void wanted_to_pairs(int64_t results, const Bfloat16* const* wanted, const Bfloat16* const* other,
                                   int64_t channels, float* to, int64_t step) {
  with_tile(
      results, [&]<class Tile>(Tile)
                   __attribute__((always_inline)) { wanted_pairs_of<Tile, Pairs>(wanted, other, channels, to, step); });
}

template <class Numbers>
OSPREY_INLINE void sums_to_taps(int64_t results, const float* sums, int64_t step, int64_t rows, float* taps,
                                int64_t tap_step, int64_t row_step) {
  with_tile(
      results, [&]<class Tile>(Tile) __attribute__((always_inline)) {
        sums_of<Tile, Numbers>(sums, step, rows, taps, tap_step, row_step);
      });
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_CONVOLVED(dispatch, T)                                                                 \
  dispatch(transform_seen, seen_to_factors,                                                                    \
           (int64_t results, const T* const* seen, int64_t channels, T* to, int64_t panel_step, int64_t step), \
           results, seen, channels, to, panel_step, step)                                                      \
      dispatch(transform_products, products_to_results,                                                        \
               (int64_t results, const float* products, int64_t step, int64_t channels, const float* biases,   \
                const Clamp* clamp, T* const* made, const T* const* next),                                     \
               results, products, step, channels, biases, clamp, made, next)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_CONVOLVED(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_CONVOLVED(OSPREY_DISPATCH_PAIRS, Bfloat16)

#define OSPREY_DISPATCH_WEIGHTS(dispatch, name, inner)                                                                 \
  dispatch(                                                                                                            \
      name, inner,                                                                                                     \
      (int64_t results, const float* taps, int64_t tap_step, int64_t row_step, int64_t rows, float* to, int64_t step), \
      results, taps, tap_step, row_step, rows, to, step)

OSPREY_DISPATCH_WEIGHTS(OSPREY_DISPATCH_SINGLES, transform_weights, taps_to_factors)
OSPREY_DISPATCH_WEIGHTS(OSPREY_DISPATCH_PAIRS, transform_weights_to_pairs, taps_to_pairs)

OSPREY_DISPATCH_PAIRS(transform_seen_to_pairs, seen_to_pairs,
                      (int64_t results, const Bfloat16* const* seen, const Bfloat16* const* other, int64_t channels,
                       float* to, int64_t panel_step, int64_t step),
                      results, seen, other, channels, to, panel_step, step)

OSPREY_DISPATCH_SINGLES(transform_wanted, wanted_to_factors,
                        (int64_t results, const float* const* wanted, int64_t channels, float* to, int64_t step),
                        results, wanted, channels, to, step)

OSPREY_DISPATCH_PAIRS(transform_wanted_to_pairs, wanted_to_pairs,
                      (int64_t results, const Bfloat16* const* wanted, const Bfloat16* const* other, int64_t channels,
                       float* to, int64_t step),
                      results, wanted, other, channels, to, step)

OSPREY_DISPATCH_SINGLES(transform_sums, sums_to_taps,
                        (int64_t results, const float* sums, int64_t step, int64_t rows, float* taps, int64_t tap_step,
                         int64_t row_step),
                        results, sums, step, rows, taps, tap_step, row_step)

}  // namespace osprey::kernels::cpu
