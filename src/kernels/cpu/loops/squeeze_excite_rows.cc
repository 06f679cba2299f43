#include "kernels/cpu/loops/squeeze_excite_rows.h"

#include "kernels/cpu/loops/channel_rows.h"
#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

template <class Numbers>
OSPREY_INLINE void add_values_of(const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                 const ChannelAffine& affine, float* scratch, double* sum) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        with_sums<Numbers>(
            rows, depth, scratch,
            std::array{sum}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
                const Few<N> numbers(x + row * depth + c);
                each<N>([&](int i) __attribute__((always_inline)) {
                  sums[0][i] += curve.value((numbers[i] - of.mean[i]) * of.scale[i] + of.shift[i]);
                });
              });
            });
      });
}

template <class Numbers>
OSPREY_INLINE void gate(const typename Numbers::Element* x, int64_t rows, int64_t depth, const ChannelAffine& affine,
                        const float* gates, typename Numbers::Element* y) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for_numbers<Numbers>(
            rows, depth, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              const OfChannels<N> factors(gates + c);
              for_each_row([&](int64_t row) __attribute__((always_inline)) {
                const int64_t at = row * depth + c;
                const Few<N> numbers(x + at);
                Few<N> made;
                each<N>([&](int i) __attribute__((always_inline)) {
                  made[i] = curve.value((numbers[i] - of.mean[i]) * of.scale[i] + of.shift[i]) * factors[i];
                });
                made.put(y + at);
              });
            });
      });
}

template <class Numbers>
OSPREY_INLINE void take_back_gate(const typename Numbers::Element* gradient, const typename Numbers::Element* x,
                                  int64_t rows, int64_t depth, const ChannelAffine& affine, const float* gates,
                                  float* scratch, double* sum, typename Numbers::Element* result) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        with_sums<Numbers>(
            rows, depth, scratch,
            std::array{sum}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              const OfChannels<N> factors(gates + c);
              for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
                const int64_t at = row * depth + c;
                const Few<N> numbers(x + at), wanted(gradient + at);
                Few<N> made;
                each<N>([&](int i) __attribute__((always_inline)) {
                  sums[0][i] += wanted[i] * curve.value((numbers[i] - of.mean[i]) * of.scale[i] + of.shift[i]);
                  made[i] = wanted[i] * factors[i];
                });
                made.put(result + at);
              });
            });
      });
}

template <class Numbers>
OSPREY_INLINE void take_back_offset(const typename Numbers::Element* gradient, const float* offset,
                                    const typename Numbers::Element* x, int64_t rows, int64_t depth,
                                    const ChannelAffine& affine, float* scratch, double* sum, double* product,
                                    typename Numbers::Element* result) {
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        with_sums<Numbers>(
            rows, depth, scratch,
            std::array{sum, product}, [=]<class N>(int64_t c, const auto& for_each_row) __attribute__((always_inline)) {
              const Normalizing<N> of(affine, c);
              const OfChannels<N> offsets(offset + c);
              for_each_row([&](int64_t row, auto& sums) __attribute__((always_inline)) {
                const int64_t at = row * depth + c;
                const Few<N> numbers(x + at), wanted(gradient + at);
                Few<N> made;
                each<N>([&](int i) __attribute__((always_inline)) {
                  const float centered = numbers[i] - of.mean[i];
                  const float g = curve.back(centered * of.scale[i] + of.shift[i], wanted[i] + offsets[i]);
                  made[i] = of.scale[i] * g;
                  sums[0][i] += g;
                  sums[1][i] += g * centered;
                });
                made.put(result + at);
              });
            });
      });
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type, `DISPATCH` one of the macros for kinds of numbers
#define OSPREY_DISPATCH_TYPE(DISPATCH, T)                                                                             \
  DISPATCH(add_values, add_values_of,                                                                                 \
           (const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch, double* sum), x,    \
           rows, depth, affine, scratch, sum)                                                                         \
  DISPATCH(gate_rows, gate,                                                                                           \
           (const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const float* gates, T* y), x, rows, \
           depth, affine, gates, y)                                                                                   \
  DISPATCH(take_back_gate_rows, take_back_gate,                                                                       \
           (const T* gradient, const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine,                  \
            const float* gates, float* scratch, double* sum, T* result),                                              \
           gradient, x, rows, depth, affine, gates, scratch, sum, result)                                             \
  DISPATCH(take_back_offset_rows, take_back_offset,                                                                   \
           (const T* gradient, const float* offset, const T* x, int64_t rows, int64_t depth,                          \
            const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result),                    \
           gradient, offset, x, rows, depth, affine, scratch, sum, product, result)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_PAIRS, Bfloat16)
OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_HALVES, Float16)

}  // namespace osprey::kernels::cpu
