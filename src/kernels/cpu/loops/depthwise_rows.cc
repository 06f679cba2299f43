#include "kernels/cpu/loops/depthwise_rows.h"

#include <type_traits>

#include "kernels/cpu/loops/depthwise_taps.h"
#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

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

/// Covers all taps by blocks, in their order: calls `body(rows, columns, first row, first column)`.
template <class Body>
OSPREY_INLINE void for_taps(const SeenPixels& seen, Body body) {
  constexpr int64_t kMost = kMostTapsAtOnce;
  if (seen.columns <= kMost) {
    for (int64_t row = 0; row < seen.rows; row += kMost)
      with_number(
          seen.rows - row, [&](auto rows) __attribute__((always_inline)) {
            with_number(
                seen.columns, [&](auto columns) __attribute__((always_inline)) { body(rows, columns, row, 0); });
          });
    return;
  }
  for (int64_t row = 0; row < seen.rows; ++row)
    for (int64_t column = 0; column < seen.columns; column += kMost)
      with_number(
          seen.columns - column, [&](auto columns) __attribute__((always_inline)) {
            body(std::integral_constant<int, 1>(), columns, row, column);
          });
}

/// So many neighbouring pixels at once: what several of them see is read once.
template <int kNumber, int kStep>
struct Pixels {
  static constexpr int kCount = kNumber, kStride = kStep;
};

/// Calls `body(some pixels, first of them)` for all pixels, and for some behind the last one.
template <int kMost, class Body>
OSPREY_INLINE void for_pixels(int64_t stride, int64_t pixels, Body body) {
  static_assert(kMost <= kMorePixels + 1);
  if (stride == 1) {
    for (int64_t p = 0; p < pixels; p += kMost) body(Pixels<kMost, 1>(), p);
  } else if (stride == 2) {
    for (int64_t p = 0; p < pixels; p += kMost) body(Pixels<kMost, 2>(), p);
  } else {
    for (int64_t p = 0; p < pixels; ++p) body(Pixels<1, 1>(), p);
  }
}

/// What happens at all pixels for one block of taps and some channels: calls
/// visit(pixel of those at once, row, column, what it sees there) between begin(some pixels, first) and
/// end(some pixels, first).
template <int kMost, class Some, int kRows, int kColumns, class Begin, class Visit, class End>
OSPREY_INLINE void pass(const SeenPixels& seen, int64_t row, int64_t column, int64_t c, int64_t pixels, Begin begin,
                        Visit visit, End end) {
  const float* lines[kRows];
  for (int r = 0; r < kRows; ++r) lines[r] = seen.lines[row + r] + seen.first + column * seen.depth + c;
  for_pixels<kMost>(
      seen.stride, pixels, [&](auto some, int64_t p) __attribute__((always_inline)) {
        constexpr int kCount = decltype(some)::kCount, kStride = decltype(some)::kStride,
                      kSpan = (kCount - 1) * kStride + kColumns;
        begin(some, p);
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r) {
          const float* const line = lines[r] + p * seen.stride * seen.depth;
          typename Some::Value here[kSpan];
#pragma GCC unroll 9
          for (int i = 0; i < kSpan; ++i) here[i] = Some::at(line + i * seen.depth);
#pragma GCC unroll 3
          for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 4
            for (int i = 0; i < kCount; ++i) visit(i, r, k, here[i * kStride + k]);
        }
        end(some, p);
      });
}

/// Sums of some pixels at once; those of the first block of taps begin with zero.
template <class Some, int kMost>
struct PixelSums {
  using Value = typename Some::Value;
  Value of[kMost];

  OSPREY_INLINE void begin(int count, bool first, const float* result, int64_t step) {
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) {
      of[i] = Value{};
      if (!first) of[i] = Some::at(result + i * step);
    }
  }
  OSPREY_INLINE void end(int count, float* result, int64_t step) const {
#pragma GCC unroll 4
    for (int i = 0; i < count; ++i) Some::at(result + i * step) = of[i];
  }
};

/// For pixels that nothing is seen by.
OSPREY_INLINE bool clear(const SeenPixels& seen, int64_t pixels, float* result, int64_t step) {
  if (seen.rows > 0 && seen.columns > 0) return false;
  for (int64_t p = 0; p < pixels; ++p)
    for (int64_t c = 0; c < seen.depth; ++c) result[p * step + c] = 0;
  return true;
}

template <int kWidest>
OSPREY_INLINE void sum_all(const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                           int64_t step) {
  constexpr int kMost = 4;
  if (clear(seen, pixels, result, step)) return;
  for_channels<kWidest>(
      seen.depth, [&](auto channels, int64_t c) __attribute__((always_inline)) {
        for_taps(
            seen, [&](auto rows, auto columns, int64_t row, int64_t column) __attribute__((always_inline)) {
              using Some = decltype(channels);
              constexpr int kRows = decltype(rows)::value, kColumns = decltype(columns)::value;
              const Taps<Some, kRows, kColumns> weight(weights, row, column, c);
              PixelSums<Some, kMost> sums;
              pass<kMost, Some, kRows, kColumns>(
                  seen, row, column, c, pixels,
                  [&](auto some, int64_t p) __attribute__((always_inline)) {
                    sums.begin(some.kCount, row + column == 0, result + p * step + c, step);
                  },
                  [&](int i, int r, int k, const typename Some::Value& here)
                      __attribute__((always_inline)) { sums.of[i] += weight.of[r][k] * here; },
                  [&](auto some, int64_t p)
                      __attribute__((always_inline)) { sums.end(some.kCount, result + p * step + c, step); });
            });
      });
}

template <int kWidest>
OSPREY_INLINE void sum_all_and_products(const SeenPixels& seen, const OfTaps<const float>& weights, const float* own,
                                        int64_t pixels, float* result, int64_t step, const OfTaps<float>& products) {
  constexpr int kMost = 3;  // more need more registers than there are
  if (clear(seen, pixels, result, step)) return;
  for_channels<kWidest>(
      seen.depth, [&](auto channels, int64_t c) __attribute__((always_inline)) {
        for_taps(
            seen, [&](auto rows, auto columns, int64_t row, int64_t column) __attribute__((always_inline)) {
              using Some = decltype(channels);
              constexpr int kRows = decltype(rows)::value, kColumns = decltype(columns)::value;
              const Taps<Some, kRows, kColumns> weight(weights, row, column, c);
              Taps<Some, kRows, kColumns> product(products, row, column, c);
              PixelSums<Some, kMost> sums, factor;
              pass<kMost, Some, kRows, kColumns>(
                  seen, row, column, c, pixels,
                  [&](auto some, int64_t p) __attribute__((always_inline)) {
                    sums.begin(some.kCount, row + column == 0, result + p * step + c, step);
                    factor.begin(some.kCount, false, own + p * step + c, step);
                  },
                  [&](int i, int r, int k, const typename Some::Value& here) __attribute__((always_inline)) {
                    sums.of[i] += weight.of[r][k] * here;
                    product.of[r][k] += factor.of[i] * here;
                  },
                  [&](auto some, int64_t p)
                      __attribute__((always_inline)) { sums.end(some.kCount, result + p * step + c, step); });
              product.write(products, row, column, c);
            });
      });
}

}  // namespace

OSPREY_DISPATCH_LANES(weighted_sums, sum_all,
                      (const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                       int64_t step),
                      seen, weights, pixels, result, step)

OSPREY_DISPATCH_LANES(weighted_sums_and_products, sum_all_and_products,
                      (const SeenPixels& seen, const OfTaps<const float>& weights, const float* own, int64_t pixels,
                       float* result, int64_t step, const OfTaps<float>& sums),
                      seen, weights, own, pixels, result, step, sums)

}  // namespace osprey::kernels::cpu
