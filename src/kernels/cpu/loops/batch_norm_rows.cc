#include "kernels/cpu/loops/batch_norm_rows.h"

#include <cstring>

#include "kernels/cpu/loops/channel_rows.h"
#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/product_panels.h"

namespace osprey::kernels::cpu {
namespace {

template <class Numbers>
OSPREY_INLINE void moments(const typename Numbers::Element* x, int64_t rows, int64_t depth, int64_t step,
                           const float* center, float* scratch, double* sum, double* square) {
  with_sums<Numbers>(
      rows, depth, scratch,
      std::array{sum, square}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
        const OfChannels<N> from(center + c);
        for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
          const Few<N> numbers(x + row * step + c);
          each<N>([&](int i) __attribute__((always_inline)) {
            const float d = numbers[i] - from[i];
            sums[0][i] += d;
            sums[1][i] += d * d;
          });
        });
      });
}

/// What a curve becomes for values that are not rounded, and for those that are.
struct AsItIs {
  template <class Curve>
  OSPREY_INLINE Curve operator()(Curve curve) const {
    return curve;
  }
};
struct Rounded {
  Rounding rounding;
  template <class Curve>
  OSPREY_INLINE RoundedCurve<Curve> operator()(Curve curve) const {
    return {curve, rounding};
  }
};

/// Some channels of a row, put through batch norm and curve.
/// Made  the kind of numbers that they become
template <class N, class Made = FloatsLike<N>, class Curve>
OSPREY_INLINE Few<Made> normalized(const Curve& curve, const Normalizing<N>& of, const typename N::Element* from) {
  const Few<N> numbers(from);
  Few<Made> made;
  each<N>([&](int i) __attribute__((always_inline)) {
    made[i] = curve.value((numbers[i] - of.mean[i]) * of.scale[i] + of.shift[i]);
  });
  return made;
}

/// Result  the kind of numbers that are made
template <class Numbers, template <class> class Result, class Wrap>
OSPREY_INLINE void normalize(const typename Numbers::Element* x, int64_t rows, int64_t depth, int64_t step,
                             const ChannelAffine& affine, Wrap wrap, typename Result<Numbers>::Element* y) {
  with_curve(
      affine.epilogue, [=](auto given) __attribute__((always_inline)) {
        const auto curve = wrap(given);
        for_numbers<Numbers>(
            rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              for_each_row([&](int64_t row) __attribute__((always_inline)) {
                normalized<N, Result<N>>(curve, of, x + row * step + c).put(y + row * depth + c);
              });
            });
      });
}

/// The channels that the last of some panels lacks become zero.
/// lines  of the panel
OSPREY_INLINE void clear_missing(float* panels, int64_t panel_step, int64_t lines, int64_t depth) {
  const int64_t own = depth % kPanelColumns;
  float* const last = panels + depth / kPanelColumns * panel_step;
  for (int64_t line = 0; own > 0 && line < lines; ++line)
    for (int64_t c = own; c < kPanelColumns; ++c) last[line * kPanelColumns + c] = 0;
}

template <class Numbers>
OSPREY_INLINE void normalize_into_panels(const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                         const ChannelAffine& affine, float* panels, int64_t panel_step) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for_numbers<Numbers>(
            rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              float* const to = panels + c / kPanelColumns * panel_step + c % kPanelColumns;
              for_each_row([&](int64_t row) __attribute__((always_inline)) {
                normalized<N>(curve, of, x + row * depth + c).put(to + row * kPanelColumns);
              });
            });
      });
  clear_missing(panels, panel_step, rows, depth);
}

/// Numbers of two rows as pairs.
template <class N>
OSPREY_INLINE void put_pairs(const Few<FloatsLike<N>>& first, const Few<FloatsLike<N>>& second, float* to) {
  if constexpr (N::kLanes == 1) {
    typename N::Element pair[2];
    store(pair, first[0]);
    store(pair + 1, second[0]);
    std::memcpy(to, pair, sizeof(pair));
  } else {
    FloatsLike<N>::put(N::pairs(N::halves(first.all()), N::halves(second.all())), to);
  }
}

template <class Numbers>
OSPREY_INLINE void normalize_into_pairs(const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                        const ChannelAffine& affine, float* panels, int64_t panel_step) {
  constexpr int64_t kAtOnce = 16;  // rows: what is written of a panel lies together
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for (int64_t begin = 0; begin < rows; begin += kAtOnce) {
          const int64_t end = begin + kAtOnce < rows ? begin + kAtOnce : rows;
          for_lanes<Numbers>(
              depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
                const Normalizing<N> of(affine, c);
                const auto* from = x + begin * depth + c;
                float* to = panels + c / kPanelColumns * panel_step + begin / 2 * kPanelColumns + c % kPanelColumns;
                int64_t row = begin;
                for (; row + 2 <= end; row += 2, from += 2 * depth, to += kPanelColumns)
                  put_pairs<N>(normalized<N>(curve, of, from), normalized<N>(curve, of, from + depth), to);
                if (row < end) {
                  Few<FloatsLike<N>> none;
                  each<N>([&](int i) __attribute__((always_inline)) { none[i] = 0; });
                  put_pairs<N>(normalized<N>(curve, of, from), none, to);
                }
              });
        }
      });
  clear_missing(panels, panel_step, (rows + 1) / 2, depth);
}

template <class Numbers>
OSPREY_INLINE void gradient_moments(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                                    int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch,
                                    double* sum, double* product) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        with_sums<Numbers>(
            rows, depth, scratch,
            std::array{sum, product}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
                const int64_t at = row * depth + c;
                const Few<N> numbers(x + at), wanted(gradient + at);
                each<N>([&](int i) __attribute__((always_inline)) {
                  const float centered = numbers[i] - of.mean[i];
                  const float g = curve.back(centered * of.scale[i] + of.shift[i], wanted[i]);
                  sums[0][i] += g;
                  sums[1][i] += g * centered;
                });
              });
            });
      });
}

template <class Numbers>
OSPREY_INLINE void gradients(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                             int64_t rows, int64_t depth, const ChannelAffine& affine, const float* slope,
                             const float* offset, typename Numbers::Element* result) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for_numbers<Numbers>(
            rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              const OfChannels<N> slopes(slope + c), offsets(offset + c);
              for_each_row([&](int64_t row) __attribute__((always_inline)) {
                const int64_t at = row * depth + c;
                const Few<N> numbers(x + at), wanted(gradient + at);
                Few<N> made;
                each<N>([&](int i) __attribute__((always_inline)) {
                  const float centered = numbers[i] - of.mean[i];
                  const float g = curve.back(centered * of.scale[i] + of.shift[i], wanted[i]);
                  made[i] = of.scale[i] * g + slopes[i] * centered + offsets[i];
                });
                made.put(result + at);
              });
            });
      });
}

template <class Numbers, template <class> class Result>
OSPREY_INLINE void add_linear(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                              int64_t rows, int64_t depth, int64_t step, const float* mean, const float* scale,
                              const float* slope, const float* offset, typename Result<Numbers>::Element* result) {
  for_numbers<Numbers>(
      rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
        const OfChannels<N> means(mean + c), scales(scale + c), slopes(slope + c), offsets(offset + c);
        for_each_row([&](int64_t row) __attribute__((always_inline)) {
          const int64_t at = row * step + c;
          const Few<N> numbers(x + at), wanted(gradient + at);
          Few<Result<N>> made;
          each<N>([&](int i) __attribute__((always_inline)) {
            made[i] = scales[i] * wanted[i] + (slopes[i] * (numbers[i] - means[i]) + offsets[i]);
          });
          made.put(result + row * depth + c);
        });
      });
}

/// Gradient  the kind of numbers that the gradient has
template <class Numbers, template <class> class Gradient, class Wrap>
OSPREY_INLINE void take_back(const typename Gradient<Numbers>::Element* gradient, const typename Numbers::Element* x,
                             int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, Wrap wrap,
                             float* scratch, double* sum, double* product, typename Numbers::Element* result) {
  with_curve(
      affine.epilogue, [=](auto given) __attribute__((always_inline)) {
        const auto curve = wrap(given);
        with_sums<Numbers>(
            rows, depth, scratch,
            std::array{sum, product}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
                const int64_t at = row * step + c;
                const Few<N> numbers(x + at);
                const Few<Gradient<N>> wanted(gradient + row * depth + c);
                Few<N> made;
                each<N>([&](int i) __attribute__((always_inline)) {
                  const float centered = numbers[i] - of.mean[i];
                  const float g = curve.back(centered * of.scale[i] + of.shift[i], wanted[i]);
                  made[i] = of.scale[i] * g;
                  sums[0][i] += g;
                  sums[1][i] += g * centered;
                });
                made.put(result + at);
              });
            });
      });
}

template <class Numbers>
OSPREY_INLINE void add_normalized(const typename Numbers::Element* x, const typename Numbers::Element* addend,
                                  int64_t rows, int64_t depth, const ChannelAffine& affine,
                                  typename Numbers::Element* y) {
  const Clamp clamp{affine.epilogue.low, affine.epilogue.high};
  for_numbers<Numbers>(
      rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
        const Normalizing<N> of(affine, c);
        for_each_row([&](int64_t row) __attribute__((always_inline)) {
          const int64_t at = row * depth + c;
          const Few<N> numbers(x + at), others(addend + at);
          Few<N> made;
          each<N>([&](int i) __attribute__((always_inline)) {
            made[i] = clamp.value((numbers[i] - of.mean[i]) * of.scale[i] + of.shift[i] + others[i]);
          });
          made.put(y + at);
        });
      });
}

/// Gradient  the kind of numbers that the gradient has, but for the rest of it
template <class Numbers, template <class> class Gradient, bool kAgain>
OSPREY_INLINE void take_back_sum_of(const typename Gradient<Numbers>::Element* gradient,
                                    const typename Numbers::Element* again, const typename Numbers::Element* y,
                                    const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                    const ChannelAffine& affine, float* scratch, double* sum, double* product,
                                    typename Numbers::Element* result) {
  const Clamp clamp{affine.epilogue.low, affine.epilogue.high};
  with_sums<Numbers>(
      rows, depth, scratch,
      std::array{sum, product}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
        const OfChannels<N> mean(affine.mean + c);
        for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
          const int64_t at = row * depth + c;
          const Few<N> made_of(x + at), made_y(y + at), more((kAgain ? again : y) + at);
          const Few<Gradient<N>> wanted(gradient + at);
          Few<N> made;
          each<N>([&](int i) __attribute__((always_inline)) {
            const float g = clamp.back(made_y[i], kAgain ? wanted[i] + more[i] : wanted[i]);
            made[i] = g;
            sums[0][i] += g;
            sums[1][i] += g * (made_of[i] - mean[i]);
          });
          made.put(result + at);
        });
      });
}

template <class Numbers, template <class> class Gradient>
OSPREY_INLINE void take_back_sum(const typename Gradient<Numbers>::Element* gradient,
                                 const typename Numbers::Element* again, const typename Numbers::Element* y,
                                 const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                 const ChannelAffine& affine, float* scratch, double* sum, double* product,
                                 typename Numbers::Element* result) {
  again == nullptr ? take_back_sum_of<Numbers, Gradient, false>(gradient, again, y, x, rows, depth, affine, scratch,
                                                                sum, product, result)
                   : take_back_sum_of<Numbers, Gradient, true>(gradient, again, y, x, rows, depth, affine, scratch, sum,
                                                               product, result);
}

template <class Numbers>
using Same = Numbers;

template <class Numbers>
OSPREY_INLINE void take_back_sum_same(const typename Numbers::Element* gradient, const typename Numbers::Element* again,
                                      const typename Numbers::Element* y, const typename Numbers::Element* x,
                                      int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch,
                                      double* sum, double* product, typename Numbers::Element* result) {
  take_back_sum<Numbers, Same>(gradient, again, y, x, rows, depth, affine, scratch, sum, product, result);
}
template <class Numbers>
OSPREY_INLINE void take_back_sum_floats(const float* gradient, const typename Numbers::Element* again,
                                        const typename Numbers::Element* y, const typename Numbers::Element* x,
                                        int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch,
                                        double* sum, double* product, typename Numbers::Element* result) {
  take_back_sum<Numbers, FloatsLike>(gradient, again, y, x, rows, depth, affine, scratch, sum, product, result);
}

template <class Numbers>
OSPREY_INLINE void normalize_same(const typename Numbers::Element* x, int64_t rows, int64_t depth, int64_t step,
                                  const ChannelAffine& affine, typename Numbers::Element* y) {
  normalize<Numbers, Same>(x, rows, depth, step, affine, AsItIs(), y);
}
template <class Numbers>
OSPREY_INLINE void normalize_to_floats(const typename Numbers::Element* x, int64_t rows, int64_t depth, int64_t step,
                                       const ChannelAffine& affine, float* y) {
  normalize<Numbers, FloatsLike>(x, rows, depth, step, affine, AsItIs(), y);
}
template <class Numbers>
OSPREY_INLINE void normalize_rounded(const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                     const ChannelAffine& affine, const Rounding& rounding,
                                     typename Numbers::Element* y) {
  normalize<Numbers, Same>(x, rows, depth, depth, affine, Rounded{rounding}, y);
}
template <class Numbers>
OSPREY_INLINE void add_linear_same(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                                   int64_t rows, int64_t depth, int64_t step, const float* mean, const float* scale,
                                   const float* slope, const float* offset, typename Numbers::Element* result) {
  add_linear<Numbers, Same>(gradient, x, rows, depth, step, mean, scale, slope, offset, result);
}
template <class Numbers>
OSPREY_INLINE void add_linear_to_floats(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                                        int64_t rows, int64_t depth, int64_t step, const float* mean,
                                        const float* scale, const float* slope, const float* offset, float* result) {
  add_linear<Numbers, FloatsLike>(gradient, x, rows, depth, step, mean, scale, slope, offset, result);
}
template <class Numbers>
OSPREY_INLINE void take_back_same(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                                  int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine,
                                  float* scratch, double* sum, double* product, typename Numbers::Element* result) {
  take_back<Numbers, Same>(gradient, x, rows, depth, step, affine, AsItIs(), scratch, sum, product, result);
}
template <class Numbers>
OSPREY_INLINE void take_back_floats(const float* gradient, const typename Numbers::Element* x, int64_t rows,
                                    int64_t depth, int64_t step, const ChannelAffine& affine, float* scratch,
                                    double* sum, double* product, typename Numbers::Element* result) {
  take_back<Numbers, FloatsLike>(gradient, x, rows, depth, step, affine, AsItIs(), scratch, sum, product, result);
}
template <class Numbers>
OSPREY_INLINE void take_back_rounded(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                                     int64_t rows, int64_t depth, const ChannelAffine& affine, const Rounding& rounding,
                                     float* scratch, double* sum, double* product, typename Numbers::Element* result) {
  take_back<Numbers, Same>(gradient, x, rows, depth, depth, affine, Rounded{rounding}, scratch, sum, product, result);
}

/// least, largest  [depth] floats
template <class Numbers>
OSPREY_INLINE void widen(const typename Numbers::Element* x, int64_t rows, int64_t depth, const ChannelAffine& affine,
                         float* least, float* largest) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for_numbers<Numbers>(
            rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              OfChannels<N> low(least + c), high(largest + c);
              for_each_row([&](int64_t row) __attribute__((always_inline)) {
                const Few<N> numbers(x + row * depth + c);
                each<N>([&](int i) __attribute__((always_inline)) {
                  const float value = curve.value((numbers[i] - of.mean[i]) * of.scale[i] + of.shift[i]);
                  low[i] = value < low[i] ? value : low[i];
                  high[i] = value > high[i] ? value : high[i];
                });
              });
              low.put(least + c);
              high.put(largest + c);
            });
      });
}

}  // namespace

OSPREY_DISPATCH_PAIRS(normalize_pairs, normalize_into_pairs,
                      (const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels,
                       int64_t panel_step),
                      x, rows, depth, affine, panels, panel_step)

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type, `DISPATCH` one of the macros above
#define OSPREY_DISPATCH_TYPE(DISPATCH, T)                                                                              \
  DISPATCH(add_moments, moments,                                                                                       \
           (const T* x, int64_t rows, int64_t depth, int64_t step, const float* center, float* scratch, double* sum,   \
            double* square),                                                                                           \
           x, rows, depth, step, center, scratch, sum, square)                                                         \
  DISPATCH(add_gradient_moments, gradient_moments,                                                                     \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch,   \
            double* sum, double* product),                                                                             \
           gradient, x, rows, depth, affine, scratch, sum, product)                                                    \
  DISPATCH(gradient_rows, gradients,                                                                                   \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine,                   \
            const float* slope, const float* offset, T* result),                                                       \
           gradient, x, rows, depth, affine, slope, offset, result)                                                    \
  DISPATCH(normalize_panels, normalize_into_panels,                                                                    \
           (const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels, int64_t panel_step),  \
           x, rows, depth, affine, panels, panel_step)                                                                 \
  DISPATCH(add_normalized_rows, add_normalized,                                                                        \
           (const T* x, const T* addend, int64_t rows, int64_t depth, const ChannelAffine& affine, T* y), x, addend,   \
           rows, depth, affine, y)                                                                                     \
  DISPATCH(take_back_sum_rows, take_back_sum_same,                                                                     \
           (const T* gradient, const T* again, const T* y, const T* x, int64_t rows, int64_t depth,                    \
            const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result),                     \
           gradient, again, y, x, rows, depth, affine, scratch, sum, product, result)                                  \
  DISPATCH(normalize_rows, normalize_same,                                                                             \
           (const T* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, T* y), x, rows, depth, \
           step, affine, y)                                                                                            \
  DISPATCH(round_rows, normalize_rounded,                                                                              \
           (const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const Rounding& rounding, T* y), x,  \
           rows, depth, affine, rounding, y)                                                                           \
  DISPATCH(take_back_rounded_rows, take_back_rounded,                                                                  \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine,                   \
            const Rounding& rounding, float* scratch, double* sum, double* product, T* result),                        \
           gradient, x, rows, depth, affine, rounding, scratch, sum, product, result)                                  \
  DISPATCH(widen_ranges, widen,                                                                                        \
           (const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* least, float* largest), x,    \
           rows, depth, affine, least, largest)                                                                        \
  DISPATCH(take_back_rows, take_back_same,                                                                             \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine,     \
            float* scratch, double* sum, double* product, T* result),                                                  \
           gradient, x, rows, depth, step, affine, scratch, sum, product, result)                                      \
  DISPATCH(add_through_statistics, add_linear_same,                                                                    \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, int64_t step, const float* mean,               \
            const float* scale, const float* slope, const float* offset, T* result),                                   \
           gradient, x, rows, depth, step, mean, scale, slope, offset, result)

/// Where the numbers of a map are no floats, between them and floats.
#define OSPREY_DISPATCH_WIDENING(DISPATCH, T)                                                                          \
  DISPATCH(normalize_rows, normalize_to_floats,                                                                        \
           (const T* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, float* y), x, rows,    \
           depth, step, affine, y)                                                                                     \
  DISPATCH(take_back_sum_rows, take_back_sum_floats,                                                                   \
           (const float* gradient, const T* again, const T* y, const T* x, int64_t rows, int64_t depth,                \
            const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result),                     \
           gradient, again, y, x, rows, depth, affine, scratch, sum, product, result)                                  \
  DISPATCH(take_back_rows, take_back_floats,                                                                           \
           (const float* gradient, const T* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, \
            float* scratch, double* sum, double* product, T* result),                                                  \
           gradient, x, rows, depth, step, affine, scratch, sum, product, result)                                      \
  DISPATCH(add_through_statistics, add_linear_to_floats,                                                               \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, int64_t step, const float* mean,               \
            const float* scale, const float* slope, const float* offset, float* result),                               \
           gradient, x, rows, depth, step, mean, scale, slope, offset, result)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_PAIRS, Bfloat16)
OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_HALVES, Float16)
OSPREY_DISPATCH_WIDENING(OSPREY_DISPATCH_PAIRS, Bfloat16)
OSPREY_DISPATCH_WIDENING(OSPREY_DISPATCH_HALVES, Float16)

}  // namespace osprey::kernels::cpu
