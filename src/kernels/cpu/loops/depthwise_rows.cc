#include "kernels/cpu/loops/depthwise_rows.h"

#include <type_traits>

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Channels that are computed together, and one by itself.
template <int kCount>
struct Channels {
  typedef float Value __attribute__((vector_size(kCount * sizeof(float)), aligned(4), may_alias));
  static OSPREY_INLINE const Value& at(const float* place) { return *reinterpret_cast<const Value*>(place); }
  static OSPREY_INLINE Value& at(float* place) { return *reinterpret_cast<Value*>(place); }
};
template <>
struct Channels<1> {
  using Value = float;
  static OSPREY_INLINE const Value& at(const float* place) { return *place; }
  static OSPREY_INLINE Value& at(float* place) { return *place; }
};

/// Calls `body(how many channels, first of them)` for all channels.
/// kMost  of them together, 8 or 16
template <int kMost, class Body>
OSPREY_INLINE void for_channels(int64_t depth, Body body) {
  static_assert(kMost <= kLanes && kLanes % 8 == 0);
  int64_t c = 0;
  for (; c + kMost <= depth; c += kMost) body(Channels<kMost>(), c);
  if constexpr (kMost > 8)
    for (; c + 8 <= depth; c += 8) body(Channels<8>(), c);
  for (; c < depth; ++c) body(Channels<1>(), c);
}

template <class T>
OSPREY_INLINE T* place(const OfTaps<T>& taps, int64_t row, int64_t column, int64_t c) {
  return taps.first + c / kLanes * taps.lanes_step + row * taps.row_step + column * taps.column_step + c % kLanes;
}

OSPREY_INLINE const float* seen_by(const SeenPixels& seen, int64_t pixel, int64_t row, int64_t column) {
  return seen.lines[row] + seen.first + (pixel * seen.stride + column) * seen.depth;
}

/// A block of taps and some neighbouring pixels at once: what several of them see is read once.
/// kMost   channels together
/// kDense  the values of the taps of a kernel that is 3 wide lie one after the other, which spares finding them
template <int kMost, int kStride, int kRows, int kColumns, int kPixels, bool kDense>
struct Tile {
  static constexpr int kSpan = (kPixels - 1) * kStride + kColumns;

  template <class T>
  static OSPREY_INLINE int64_t offset(const OfTaps<T>& taps, int row, int column) {
    return kDense ? (row * 3 + column) * kLanes : row * taps.row_step + column * taps.column_step;
  }

  /// After the first tile of a pixel, with the sums that stand in the result.
  static OSPREY_INLINE void sum(const SeenPixels& seen, int64_t pixel, int64_t row, int64_t column,
                                const OfTaps<const float>& weights, float* result, int64_t result_step) {
    const float* lines[kRows];
    for (int r = 0; r < kRows; ++r) lines[r] = seen_by(seen, pixel, row + r, column);
    const bool goes_on = row + column > 0;
    const int64_t depth = seen.depth;
    for_channels<kMost>(
        depth, [=](auto channels, int64_t c) __attribute__((always_inline)) {
          using Some = decltype(channels);
          using Value = typename Some::Value;
          const float* const here = place(weights, row, column, c);
          Value sums[kPixels];
          for (int p = 0; p < kPixels; ++p) {
            sums[p] = Value{};
            if (goes_on) sums[p] = Some::at(result + p * result_step + c);
          }
          for (int r = 0; r < kRows; ++r) {
            Value seen_here[kSpan];
            for (int i = 0; i < kSpan; ++i) seen_here[i] = Some::at(lines[r] + i * depth + c);
            for (int k = 0; k < kColumns; ++k) {
              const Value weight = Some::at(here + offset(weights, r, k));
              for (int p = 0; p < kPixels; ++p) sums[p] += weight * seen_here[p * kStride + k];
            }
          }
          for (int p = 0; p < kPixels; ++p) Some::at(result + p * result_step + c) = sums[p];
        });
  }

  static OSPREY_INLINE void add(const SeenPixels& seen, int64_t pixel, int64_t row, int64_t column,
                                const float* gradient, const OfTaps<float>& all) {
    const float* lines[kRows];
    for (int r = 0; r < kRows; ++r) lines[r] = seen_by(seen, pixel, row + r, column);
    const int64_t depth = seen.depth;
    for_channels<kMost>(
        depth, [=](auto channels, int64_t c) __attribute__((always_inline)) {
          using Some = decltype(channels);
          using Value = typename Some::Value;
          float* const here = place(all, row, column, c);
          Value g[kPixels];
          for (int p = 0; p < kPixels; ++p) g[p] = Some::at(gradient + p * depth + c);
          for (int r = 0; r < kRows; ++r) {
            Value seen_here[kSpan];
            for (int i = 0; i < kSpan; ++i) seen_here[i] = Some::at(lines[r] + i * depth + c);
            for (int k = 0; k < kColumns; ++k) {
              Value sum = Some::at(here + offset(all, r, k));
              for (int p = 0; p < kPixels; ++p) sum += g[p] * seen_here[p * kStride + k];
              Some::at(here + offset(all, r, k)) = sum;
            }
          }
        });
  }
};

/// Calls `body` with so many as a number that the compiler knows, at most 3.
template <class Body>
OSPREY_INLINE void with_number(int64_t number, Body body) {
  if (number >= 3) {
    body(std::integral_constant<int, 3>());
  } else if (number == 2) {
    body(std::integral_constant<int, 2>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

/// Covers all taps of some pixels by tiles, for each pixel in the order of the taps: calls `body(tile, row, column)`.
template <int kMost, int kStride, int kPixels, class Body>
OSPREY_INLINE void for_taps(const SeenPixels& seen, bool dense, Body body) {
  constexpr int64_t kTaps = 3;
  if (dense && seen.rows == kTaps && seen.columns == kTaps) {
    body(Tile<kMost, kStride, 3, 3, kPixels, true>(), 0, 0);
    return;
  }
  if (seen.rows == 0 || seen.columns == 0) return;
  if (seen.rows < kTaps && seen.columns <= kTaps) {
    with_number(
        seen.rows, [&](auto rows) __attribute__((always_inline)) {
          with_number(
              seen.columns, [&](auto columns) __attribute__((always_inline)) {
                body(Tile<kMost, kStride, decltype(rows)::value, decltype(columns)::value, kPixels, false>(), 0, 0);
              });
        });
    return;
  }
  for (int64_t row = 0; row < seen.rows; ++row)
    for (int64_t column = 0; column < seen.columns; column += kTaps)
      with_number(
          seen.columns - column, [&](auto columns) __attribute__((always_inline)) {
            body(Tile<kMost, kStride, 1, decltype(columns)::value, kPixels, false>(), row, column);
          });
}

/// Covers all pixels and taps of a run: calls `body(tile, first pixel, row, column)`.
template <int kMost, int kPixels, class Values, class Body>
OSPREY_INLINE void for_tiles(const SeenPixels& seen, const Values& values, int64_t pixels, Body body) {
  const bool dense = values.row_step == 3 * kLanes && values.column_step == kLanes;
  int64_t p = 0;
  const auto here = [&](auto tile, int64_t row, int64_t column) __attribute__((always_inline)) {
    body(tile, p, row, column);
  };
  if (seen.stride == 1)
    for (; p + kPixels <= pixels; p += kPixels) for_taps<kMost, 1, kPixels>(seen, dense, here);
  if (seen.stride == 2)
    for (; p + kPixels <= pixels; p += kPixels) for_taps<kMost, 2, kPixels>(seen, dense, here);
  for (; p < pixels; ++p) for_taps<kMost, 1, 1>(seen, dense, here);
}

template <int kMost>
OSPREY_INLINE void sum_all(const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                           int64_t result_step) {
  if (seen.rows == 0 || seen.columns == 0) {
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < seen.depth; ++c) result[p * result_step + c] = 0;
    return;
  }
  for_tiles<kMost, 2>(
      seen, weights, pixels, [&](auto tile, int64_t p, int64_t row, int64_t column) __attribute__((always_inline)) {
        tile.sum(seen, p, row, column, weights, result + p * result_step, result_step);
      });
}

template <int kMost>
OSPREY_INLINE void add_all(const SeenPixels& seen, const float* gradient, int64_t pixels, const OfTaps<float>& sums) {
  for_tiles<kMost, 4>(
      seen, sums, pixels, [&](auto tile, int64_t p, int64_t row, int64_t column) __attribute__((always_inline)) {
        tile.add(seen, p, row, column, gradient + p * seen.depth, sums);
      });
}

}  // namespace

OSPREY_DISPATCH_LANES(weighted_sums, sum_all,
                      (const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                       int64_t result_step),
                      seen, weights, pixels, result, result_step)

OSPREY_DISPATCH_LANES(add_products, add_all,
                      (const SeenPixels& seen, const float* gradient, int64_t pixels, const OfTaps<float>& sums), seen,
                      gradient, pixels, sums)

}  // namespace osprey::kernels::cpu
