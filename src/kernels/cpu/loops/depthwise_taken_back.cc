#include "kernels/cpu/loops/depthwise_rows.h"
#include "kernels/cpu/loops/depthwise_taps.h"
#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/lanes.h"

namespace osprey::kernels::cpu {
namespace {

/// Some successive pixels of some channels: what they see, and what becomes of it.
/// p, c                the first of the pixels and of the channels
/// sum_g, sum_product  what the pixels add to `own.sum` and `own.product`
template <class N, int kRows, int kColumns, int kPixels>
OSPREY_INLINE void take_back_pixels(const SeenPixels& seen, const Taps<Channels<N::kLanes>, kRows, kColumns>& weight,
                                    const NormalizedPixels<typename N::Element>& own, int64_t p, int64_t c,
                                    Taps<Channels<N::kLanes>, kRows, kColumns>& product, Few<FloatsLike<N>>& sum_g,
                                    Few<FloatsLike<N>>& sum_product) {
  using Some = Channels<N::kLanes>;
  using Floats = Few<FloatsLike<N>>;
  const float *const mean = own.affine.mean + c, *const scale = own.affine.scale + c,
                     *const shift = own.affine.shift + c;
  const Clamp clamp{own.affine.epilogue.low, own.affine.epilogue.high};
  Floats centered[kPixels], clamped[kPixels];
  typename Some::Value factor[kPixels], sums[kPixels];
#pragma GCC unroll 3
  for (int i = 0; i < kPixels; ++i) {
    const Few<N> numbers(own.x + (p + i) * own.step + c);
    each<N>([&](int k) __attribute__((always_inline)) {
      centered[i][k] = numbers[k] - mean[k];
      clamped[i][k] = clamp.value(centered[i][k] * scale[k] + shift[k]);
    });
    factor[i] = clamped[i].all();
    sums[i] = typename Some::Value{};
  }
#pragma GCC unroll 3
  for (int r = 0; r < kRows; ++r) {
    constexpr int kSpan = kPixels - 1 + kColumns;
    const float* const line = seen.lines[r] + seen.first + p * seen.depth + c;
    typename Some::Value here[kSpan];
#pragma GCC unroll 5
    for (int i = 0; i < kSpan; ++i) here[i] = Some::at(line + i * seen.depth);
#pragma GCC unroll 3
    for (int k = 0; k < kColumns; ++k)
#pragma GCC unroll 3
      for (int i = 0; i < kPixels; ++i) {
        sums[i] += weight.of[r][k] * here[i + k];
        product.of[r][k] += factor[i] * here[i + k];
      }
  }
#pragma GCC unroll 3
  for (int i = 0; i < kPixels; ++i) {
    const Floats result(sums[i]);
    Few<N> made;
    each<N>([&](int k) __attribute__((always_inline)) {
      const float g = clamp.back(clamped[i][k], result[k]);  // what has been clamped lies on a bound
      made[k] = scale[k] * g;
      sum_g[k] += g;
      sum_product[k] += g * centered[i][k];
    });
    made.put(own.gradient + (p + i) * own.step + c);
  }
}

/// The same of all pixels of some channels, for a block of taps.
template <class N, int kRows, int kColumns>
OSPREY_INLINE void take_back_channels(const SeenPixels& seen, const OfTaps<const float>& weights,
                                      const NormalizedPixels<typename N::Element>& own, int64_t pixels, int64_t c,
                                      const OfTaps<float>& products) {
  constexpr int kMost = 3;                 // more need more registers than there are
  constexpr int64_t kSummed = 25 * kMost;  // pixels that are summed as floats before they join the doubles
  const Taps<Channels<N::kLanes>, kRows, kColumns> weight(weights, 0, 0, c);
  Taps<Channels<N::kLanes>, kRows, kColumns> product(products, 0, 0, c);
  double *const sum = own.sum + c, *const sum_of_products = own.product + c;
  for (int64_t p = 0; p < pixels;) {
    Few<FloatsLike<N>> sum_g, sum_product;
    each<N>([&](int k) __attribute__((always_inline)) { sum_g[k] = sum_product[k] = 0; });
    const int64_t end = p + kSummed < pixels ? p + kSummed : pixels;
    for (; p + kMost <= end; p += kMost)
      take_back_pixels<N, kRows, kColumns, kMost>(seen, weight, own, p, c, product, sum_g, sum_product);
    for (; p < end; ++p) take_back_pixels<N, kRows, kColumns, 1>(seen, weight, own, p, c, product, sum_g, sum_product);
    each<N>([&](int k) __attribute__((always_inline)) { sum[k] += sum_g[k]; });
    each<N>([&](int k) __attribute__((always_inline)) { sum_of_products[k] += sum_product[k]; });
  }
  product.write(products, 0, 0, c);
}

template <class Numbers>
OSPREY_INLINE void take_back_all(const SeenPixels& seen, const OfTaps<const float>& weights,
                                 const NormalizedPixels<typename Numbers::Element>& own, int64_t pixels,
                                 const OfTaps<float>& products) {
  for_lanes<Numbers>(
      seen.depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
        if (seen.rows == 0 || seen.columns == 0) {
          for (int64_t p = 0; p < pixels; ++p)
            for (int64_t k = 0; k < N::kLanes; ++k) store(own.gradient + p * own.step + c + k, 0.0f);
          return;
        }
        with_number(
            seen.rows, [&](auto rows) __attribute__((always_inline)) {
              with_number(
                  seen.columns, [&](auto columns) __attribute__((always_inline)) {
                    take_back_channels<N, decltype(rows)::value, decltype(columns)::value>(seen, weights, own, pixels,
                                                                                           c, products);
                  });
            });
      });
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type, `DISPATCH` one of the macros above
#define OSPREY_DISPATCH_TAKEN_BACK(DISPATCH, T)                                                         \
  DISPATCH(sums_and_products_taken_back, take_back_all,                                                 \
           (const SeenPixels& seen, const OfTaps<const float>& weights, const NormalizedPixels<T>& own, \
            int64_t pixels, const OfTaps<float>& sums),                                                 \
           seen, weights, own, pixels, sums)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TAKEN_BACK(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_TAKEN_BACK(OSPREY_DISPATCH_PAIRS, Bfloat16)
OSPREY_DISPATCH_TAKEN_BACK(OSPREY_DISPATCH_HALVES, Float16)

}  // namespace osprey::kernels::cpu
