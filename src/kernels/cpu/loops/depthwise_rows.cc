#include "kernels/cpu/loops/depthwise_rows.h"

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Channels that are computed together, and one by itself.
struct EightChannels {
  typedef float Value __attribute__((vector_size(32), aligned(4), may_alias));
  static OSPREY_INLINE const Value& at(const float* place) { return *reinterpret_cast<const Value*>(place); }
  static OSPREY_INLINE Value& at(float* place) { return *reinterpret_cast<Value*>(place); }
};
struct OneChannel {
  using Value = float;
  static OSPREY_INLINE const Value& at(const float* place) { return *place; }
  static OSPREY_INLINE Value& at(float* place) { return *place; }
};

/// Calls `body(how many channels, first of them)` for all channels.
template <class Body>
OSPREY_INLINE void for_channels(int64_t depth, Body body) {
  int64_t c = 0;
  for (; c + kLanes <= depth; c += kLanes) body(EightChannels(), c);
  for (; c < depth; ++c) body(OneChannel(), c);
}

template <class T>
OSPREY_INLINE T* place(const OfTaps<T>& taps, int column, int64_t c) {
  return taps.first + c / kLanes * taps.lanes_step + column * taps.column_step + c % kLanes;
}

/// So many neighbouring pixels and taps of one row at once: what several of them see is read once.
template <int kStride, int kColumns, int kPixels>
struct Tile {
  static constexpr int kSpan = (kPixels - 1) * kStride + kColumns;

  /// goes_on  with the sums that stand in the result
  static OSPREY_INLINE void sum(const float* x, int64_t depth, const OfTaps<const float> weights, float* result,
                                int64_t result_step, bool goes_on) {
    for_channels(
        depth, [=](auto channels, int64_t c) __attribute__((always_inline)) {
          using Channels = decltype(channels);
          using Value = typename Channels::Value;
          Value sums[kPixels], seen[kSpan];
          for (int p = 0; p < kPixels; ++p) {
            sums[p] = Value{};
            if (goes_on) sums[p] = Channels::at(result + p * result_step + c);
          }
          for (int i = 0; i < kSpan; ++i) seen[i] = Channels::at(x + i * depth + c);
          for (int k = 0; k < kColumns; ++k) {
            const Value weight = Channels::at(place(weights, k, c));
            for (int p = 0; p < kPixels; ++p) sums[p] += weight * seen[p * kStride + k];
          }
          for (int p = 0; p < kPixels; ++p) Channels::at(result + p * result_step + c) = sums[p];
        });
  }

  static OSPREY_INLINE void add(const float* x, int64_t depth, const float* gradient, const OfTaps<float> sums) {
    for_channels(
        depth, [=](auto channels, int64_t c) __attribute__((always_inline)) {
          using Channels = decltype(channels);
          using Value = typename Channels::Value;
          Value g[kPixels], seen[kSpan];
          for (int p = 0; p < kPixels; ++p) g[p] = Channels::at(gradient + p * depth + c);
          for (int i = 0; i < kSpan; ++i) seen[i] = Channels::at(x + i * depth + c);
          for (int k = 0; k < kColumns; ++k) {
            Value sum = Channels::at(place(sums, k, c));
            for (int p = 0; p < kPixels; ++p) sum += g[p] * seen[p * kStride + k];
            Channels::at(place(sums, k, c)) = sum;
          }
        });
  }
};

/// Covers all pixels and taps of a run by tiles: calls `body(tile, first pixel, row, first column)`, for each pixel
/// with the taps in their order.
template <int kStride, class Body>
OSPREY_INLINE void for_tiles(const SeenPixels& seen, int64_t pixels, Body body) {
  const auto taps_of = [&](auto of_three, auto of_two, auto of_one, int64_t p) __attribute__((always_inline)) {
    for (int64_t row = 0; row < seen.rows; ++row) {
      int64_t column = 0;
      for (; column + 3 <= seen.columns; column += 3) body(of_three, p, row, column);
      if (column + 2 <= seen.columns) body(of_two, p, row, column), column += 2;
      if (column < seen.columns) body(of_one, p, row, column);
    }
  };
  int64_t p = 0;
  for (; p + 2 <= pixels; p += 2) taps_of(Tile<kStride, 3, 2>(), Tile<kStride, 2, 2>(), Tile<kStride, 1, 2>(), p);
  if (p < pixels) taps_of(Tile<1, 3, 1>(), Tile<1, 2, 1>(), Tile<1, 1, 1>(), p);
}

/// The same for any stride.
template <class Body>
OSPREY_INLINE void for_all_tiles(const SeenPixels& seen, int64_t pixels, Body body) {
  if (seen.stride == 1) {
    for_tiles<1>(seen, pixels, body);
  } else if (seen.stride == 2) {
    for_tiles<2>(seen, pixels, body);
  } else {
    for (int64_t p = 0; p < pixels; ++p)
      for_tiles<1>(
          seen, 1, [&](auto tile, int64_t, int64_t row, int64_t column) __attribute__((always_inline)) {
            body(tile, p, row, column);
          });
  }
}

OSPREY_INLINE const float* seen_by(const SeenPixels& seen, int64_t pixel, int64_t row, int64_t column) {
  return seen.first + row * seen.row_step + (pixel * seen.stride + column) * seen.depth;
}

template <class T>
OSPREY_INLINE OfTaps<T> from(const OfTaps<T>& taps, int64_t row, int64_t column) {
  return {taps.first + row * taps.row_step + column * taps.column_step, taps.row_step, taps.column_step,
          taps.lanes_step};
}

OSPREY_INLINE void sum_all(const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                           int64_t result_step) {
  if (seen.rows == 0 || seen.columns == 0) {
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < seen.depth; ++c) result[p * result_step + c] = 0;
    return;
  }
  for_all_tiles(
      seen, pixels, [&](auto tile, int64_t p, int64_t row, int64_t column) __attribute__((always_inline)) {
        tile.sum(seen_by(seen, p, row, column), seen.depth, from(weights, row, column), result + p * result_step,
                 result_step, row + column > 0);
      });
}

OSPREY_INLINE void add_all(const SeenPixels& seen, const float* gradient, int64_t pixels, const OfTaps<float>& sums) {
  for_all_tiles(
      seen, pixels, [&](auto tile, int64_t p, int64_t row, int64_t column) __attribute__((always_inline)) {
        tile.add(seen_by(seen, p, row, column), seen.depth, gradient + p * seen.depth, from(sums, row, column));
      });
}

}  // namespace

OSPREY_DISPATCH(weighted_sums, sum_all,
                (const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                 int64_t result_step),
                seen, weights, pixels, result, result_step)

OSPREY_DISPATCH(add_products, add_all,
                (const SeenPixels& seen, const float* gradient, int64_t pixels, const OfTaps<float>& sums), seen,
                gradient, pixels, sums)

}  // namespace osprey::kernels::cpu
