#include "kernels/cpu/loops/depthwise_rows.h"
#include "kernels/cpu/loops/depthwise_taps.h"
#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/lanes.h"

namespace osprey::kernels::cpu {
namespace {

/// Some successive pixels of some channels; `kStride` pixels lie between what one of them sees and what the next does.
/// p, c  the first of the pixels and of the channels
/// add   called with what each has become
template <class N, int kRows, int kColumns, int kStride, int kPixels, class Add>
OSPREY_INLINE void sum_pixels(const SeenPixels& seen, const Taps<Channels<N::kLanes>, kRows, kColumns>& weight,
                              const PixelsWithMoments<typename N::Element>& made, int64_t p, int64_t c,
                              const Add& add) {
  using Some = Channels<N::kLanes>;
  typename Some::Value sums[kPixels];
#pragma GCC unroll 4
  for (int i = 0; i < kPixels; ++i) sums[i] = typename Some::Value{};
#pragma GCC unroll 3
  for (int r = 0; r < kRows; ++r) {
    constexpr int kSpan = (kPixels - 1) * kStride + kColumns;
    const float* const line = seen.lines[r] + seen.first + p * seen.stride * seen.depth + c;
    typename Some::Value here[kSpan];
#pragma GCC unroll 9
    for (int i = 0; i < kSpan; ++i) here[i] = Some::at(line + i * seen.depth);
#pragma GCC unroll 3
    for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 4
      for (int i = 0; i < kPixels; ++i) sums[i] += weight.of[r][k] * here[i * kStride + k];
  }
#pragma GCC unroll 4
  for (int i = 0; i < kPixels; ++i) {
    typename N::Element* const to = made.y + (p + i) * made.step + c;
    N::put(sums[i], to);
    add(Few<N>(to));
  }
}

/// All pixels of some channels, for a block of taps.
template <class N, int kRows, int kColumns, int kStride, int kMost>
OSPREY_INLINE void sum_channels(const SeenPixels& seen, const OfTaps<const float>& weights,
                                const PixelsWithMoments<typename N::Element>& made, int64_t pixels, int64_t c) {
  constexpr int64_t kSummed = 64;  // pixels that are summed as floats before they join the doubles
  static_assert(kSummed % kMost == 0);
  using Floats = Few<FloatsLike<N>>;
  const Taps<Channels<N::kLanes>, kRows, kColumns> weight(weights, 0, 0, c);
  if (made.begins)
    sum_pixels<N, kRows, kColumns, kStride, 1>(
        seen, weight, made, 0, c, [&](const Few<N>& first) __attribute__((always_inline)) {
          each<N>([&](int k) __attribute__((always_inline)) { made.center[c + k] = first[k]; });
        });
  const Floats center(made.center + c);
  for (int64_t p = 0; p < pixels;) {
    Floats sum, square;
    each<N>([&](int k) __attribute__((always_inline)) { sum[k] = square[k] = 0; });
    const auto add = [&](const Few<N>& numbers) __attribute__((always_inline)) {
      each<N>([&](int k) __attribute__((always_inline)) {
        const float d = numbers[k] - center[k];
        sum[k] += d;
        square[k] += d * d;
      });
    };
    const int64_t end = p + kSummed < pixels ? p + kSummed : pixels;
    for (; p + kMost <= end; p += kMost) sum_pixels<N, kRows, kColumns, kStride, kMost>(seen, weight, made, p, c, add);
    for (; p < end; ++p) sum_pixels<N, kRows, kColumns, kStride, 1>(seen, weight, made, p, c, add);
    each<N>([&](int k) __attribute__((always_inline)) { made.sum[c + k] += sum[k]; });
    each<N>([&](int k) __attribute__((always_inline)) { made.square[c + k] += square[k]; });
  }
}

/// Pixels that see nothing.
template <class T>
OSPREY_INLINE void clear(const PixelsWithMoments<T>& made, int64_t pixels, int64_t depth) {
  for (int64_t c = 0; c < depth; ++c) {
    if (made.begins) made.center[c] = 0;
    for (int64_t p = 0; p < pixels; ++p) store(made.y + p * made.step + c, 0.0f);
    const double center = made.center[c], count = static_cast<double>(pixels);
    made.sum[c] -= count * center;
    made.square[c] += count * center * center;
  }
}

template <class Numbers>
OSPREY_INLINE void sum_all(const SeenPixels& seen, const OfTaps<const float>& weights,
                           const PixelsWithMoments<typename Numbers::Element>& made, int64_t pixels) {
  if (seen.rows == 0 || seen.columns == 0) return clear(made, pixels, seen.depth);
  for_lanes<Numbers>(
      seen.depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
        with_number(
            seen.rows, [&](auto rows) __attribute__((always_inline)) {
              with_number(
                  seen.columns, [&](auto columns) __attribute__((always_inline)) {
                    constexpr int kRows = decltype(rows)::value, kColumns = decltype(columns)::value;
                    if (seen.stride == 1) {
                      sum_channels<N, kRows, kColumns, 1, 4>(seen, weights, made, pixels, c);
                    } else if (seen.stride == 2) {
                      sum_channels<N, kRows, kColumns, 2, 4>(seen, weights, made, pixels, c);
                    } else {
                      sum_channels<N, kRows, kColumns, 1, 1>(seen, weights, made, pixels, c);
                    }
                  });
            });
      });
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type, `DISPATCH` one of the macros above
#define OSPREY_DISPATCH_WITH_MOMENTS(DISPATCH, T)                                                                     \
  DISPATCH(                                                                                                           \
      sums_with_moments, sum_all,                                                                                     \
      (const SeenPixels& seen, const OfTaps<const float>& weights, const PixelsWithMoments<T>& made, int64_t pixels), \
      seen, weights, made, pixels)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_WITH_MOMENTS(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_WITH_MOMENTS(OSPREY_DISPATCH_PAIRS, Bfloat16)
OSPREY_DISPATCH_WITH_MOMENTS(OSPREY_DISPATCH_HALVES, Float16)

}  // namespace osprey::kernels::cpu
