#include "kernels/cpu/loops/batch_norm_rows.h"

#include <type_traits>

#include "kernels/arithmetic/curve.h"
#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/product_panels.h"

namespace osprey::kernels::cpu {
namespace {

/// Rows that are summed as floats before they join the doubles.
constexpr int64_t kRows = 128;

/// Calls `body(row, columns of four rows)` in fours, then singly, and adds what it gathered to the doubles.
template <class Add>
OSPREY_INLINE void gather(int64_t rows, int64_t depth, float* scratch, double* first, double* second, Add add) {
  float* __restrict a = scratch;
  float* __restrict b = scratch + depth;
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = begin + kRows < rows ? begin + kRows : rows;
    for (int64_t c = 0; c < depth; ++c) a[c] = b[c] = 0;
    int64_t row = begin;
    for (; row + 4 <= end; row += 4) {
      for (int64_t c = 0; c < depth; ++c) {
        float a0 = 0, b0 = 0, a1 = 0, b1 = 0;
        add(row, c, a0, b0);
        add(row + 1, c, a1, b1);
        add(row + 2, c, a0, b0);
        add(row + 3, c, a1, b1);
        a[c] += a0 + a1;
        b[c] += b0 + b1;
      }
    }
    for (; row < end; ++row)
      for (int64_t c = 0; c < depth; ++c) add(row, c, a[c], b[c]);
    for (int64_t c = 0; c < depth; ++c) first[c] += a[c];
    for (int64_t c = 0; c < depth; ++c) second[c] += b[c];
  }
}

template <class T>
OSPREY_INLINE void moments(const T* __restrict x, int64_t rows, int64_t depth, int64_t step,
                           const float* __restrict center, float* scratch, double* sum, double* square) {
  gather(
      rows, depth, scratch, sum,
      square, [=](int64_t row, int64_t c, float& a, float& b) __attribute__((always_inline)) {
        const float d = load(x + row * step + c) - center[c];
        a += d;
        b += d * d;
      });
}

/// Calls `body(how many, first row)` for four rows at a time, which read what a channel has once, then for single ones.
/// (What is written is no other row's, nor anything of a channel: "ivdep" tells the compiler, which cannot know.)
template <class Body>
OSPREY_INLINE void for_rows(int64_t begin, int64_t end, Body body) {
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) body(std::integral_constant<int, 4>(), row);
  for (; row < end; ++row) body(std::integral_constant<int, 1>(), row);
}

template <class T, class Out>
OSPREY_INLINE void normalize(const T* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine,
                             Out* y) {
  const float *const mean = affine.mean, *const scale = affine.scale, *const shift = affine.shift;
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for_rows(
            0, rows, [=](auto some, int64_t row) __attribute__((always_inline)) {
              const T* const from = x + row * step;
              Out* const to = y + row * depth;
#pragma GCC ivdep
              for (int64_t c = 0; c < depth; ++c)
#pragma GCC unroll 4
                for (int r = 0; r < decltype(some)::value; ++r)
                  store(to + r * depth + c, curve.value((load(from + r * step + c) - mean[c]) * scale[c] + shift[c]));
            });
      });
}

template <class T>
OSPREY_INLINE void normalize_into_panels(const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine,
                                         float* panels, int64_t panel_step) {
  const float *const mean = affine.mean, *const scale = affine.scale, *const shift = affine.shift;
  const int64_t whole = depth / kPanelColumns * kPanelColumns;
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for_rows(
            0, rows, [=](auto some, int64_t row) __attribute__((always_inline)) {
              const T* const from = x + row * depth;
              float* to = panels + row * kPanelColumns;
              int64_t first = 0;
              for (; first < whole; first += kPanelColumns, to += panel_step)
#pragma GCC ivdep
                for (int64_t i = 0; i < kPanelColumns; ++i)
#pragma GCC unroll 4
                  for (int r = 0; r < decltype(some)::value; ++r)
                    to[r * kPanelColumns + i] = curve.value(
                        (load(from + r * depth + first + i) - mean[first + i]) * scale[first + i] + shift[first + i]);
              if (first == depth) return;
#pragma GCC unroll 4
              for (int r = 0; r < decltype(some)::value; ++r)
                for (int64_t c = first; c < first + kPanelColumns; ++c)
                  to[r * kPanelColumns + c - first] =
                      c < depth ? curve.value((load(from + r * depth + c) - mean[c]) * scale[c] + shift[c]) : 0;
            });
      });
}

template <class T>
OSPREY_INLINE void gradient_moments(const T* __restrict gradient, const T* __restrict x, int64_t rows, int64_t depth,
                                    const ChannelAffine& affine, float* scratch, double* sum, double* product) {
  const float* __restrict mean = affine.mean;
  const float* __restrict scale = affine.scale;
  const float* __restrict shift = affine.shift;
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        gather(
            rows, depth, scratch, sum,
            product, [=](int64_t row, int64_t c, float& a, float& b) __attribute__((always_inline)) {
              const float centered = load(x + row * depth + c) - mean[c];
              const float g = curve.back(centered * scale[c] + shift[c], load(gradient + row * depth + c));
              a += g;
              b += g * centered;
            });
      });
}

template <class T>
OSPREY_INLINE void gradients(const T* __restrict gradient, const T* __restrict x, int64_t rows, int64_t depth,
                             const ChannelAffine& affine, const float* __restrict slope, const float* __restrict offset,
                             T* __restrict result) {
  const float* __restrict mean = affine.mean;
  const float* __restrict scale = affine.scale;
  const float* __restrict shift = affine.shift;
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = 0; c < depth; ++c) {
            const float centered = load(x + row * depth + c) - mean[c];
            const float g = curve.back(centered * scale[c] + shift[c], load(gradient + row * depth + c));
            store(result + row * depth + c, scale[c] * g + slope[c] * centered + offset[c]);
          }
        }
      });
}

template <class T>
OSPREY_INLINE void add_linear(const T* gradient, const T* x, int64_t rows, int64_t depth, int64_t step,
                              const float* mean, const float* scale, const float* slope, const float* offset,
                              float* result) {
  for_rows(
      0, rows, [=](auto some, int64_t row) __attribute__((always_inline)) {
        const T *const g = gradient + row * step, *const from = x + row * step;
        float* const to = result + row * depth;
#pragma GCC ivdep
        for (int64_t c = 0; c < depth; ++c)
#pragma GCC unroll 4
          for (int r = 0; r < decltype(some)::value; ++r)
            to[r * depth + c] =
                scale[c] * load(g + r * step + c) + (slope[c] * (load(from + r * step + c) - mean[c]) + offset[c]);
      });
}

/// Calls body(rows, first of them, channel, a, b) for all rows, up to four at a time, and adds what it has added to the
/// floats a and b to the sums.
template <class Body>
OSPREY_INLINE void with_sums(int64_t rows, int64_t depth, float* scratch, double* first, double* second, Body body) {
  float *const a = scratch, *const b = scratch + depth;
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = begin + kRows < rows ? begin + kRows : rows;
    for (int64_t c = 0; c < depth; ++c) a[c] = b[c] = 0;
    for_rows(
        begin, end, [=](auto some, int64_t row) __attribute__((always_inline)) {
#pragma GCC ivdep
          for (int64_t c = 0; c < depth; ++c) {
            float of_a = a[c], of_b = b[c];
            body(some, row, c, of_a, of_b);
            a[c] = of_a;
            b[c] = of_b;
          }
        });
    for (int64_t c = 0; c < depth; ++c) first[c] += a[c];
    for (int64_t c = 0; c < depth; ++c) second[c] += b[c];
  }
}

template <class G, class T>
OSPREY_INLINE void take_back(const G* gradient, const T* x, int64_t rows, int64_t depth, int64_t step,
                             const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result) {
  const float *const mean = affine.mean, *const scale = affine.scale, *const shift = affine.shift;
  with_curve(
      affine.epilogue, [=](auto curve) __attribute__((always_inline)) {
        with_sums(
            rows, depth, scratch, sum,
            product, [=](auto some, int64_t row, int64_t c, float& a, float& b) __attribute__((always_inline)) {
#pragma GCC unroll 4
              for (int r = 0; r < decltype(some)::value; ++r) {
                const int64_t at = (row + r) * step + c;
                const float centered = load(x + at) - mean[c];
                const float g = curve.back(centered * scale[c] + shift[c], load(gradient + (row + r) * depth + c));
                store(result + at, scale[c] * g);
                a += g;
                b += g * centered;
              }
            });
      });
}

template <class T>
OSPREY_INLINE void add_normalized(const T* x, const T* addend, int64_t rows, int64_t depth, const ChannelAffine& affine,
                                  T* y) {
  const float *const mean = affine.mean, *const scale = affine.scale, *const shift = affine.shift;
  const Clamp clamp{affine.epilogue.low, affine.epilogue.high};
  for_rows(
      0, rows, [=](auto some, int64_t row) __attribute__((always_inline)) {
#pragma GCC ivdep
        for (int64_t c = 0; c < depth; ++c)
#pragma GCC unroll 4
          for (int r = 0; r < decltype(some)::value; ++r) {
            const int64_t at = (row + r) * depth + c;
            store(y + at, clamp.value((load(x + at) - mean[c]) * scale[c] + shift[c] + load(addend + at)));
          }
      });
}

template <class T>
OSPREY_INLINE void take_back_sum(const T* gradient, const T* y, const T* x, int64_t rows, int64_t depth,
                                 const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result) {
  const float* const mean = affine.mean;
  const Clamp clamp{affine.epilogue.low, affine.epilogue.high};
  with_sums(
      rows, depth, scratch, sum,
      product, [=](auto some, int64_t row, int64_t c, float& a, float& b) __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int r = 0; r < decltype(some)::value; ++r) {
          const int64_t at = (row + r) * depth + c;
          const float g = clamp.back(load(y + at), load(gradient + at));
          store(result + at, g);
          a += g;
          b += g * (load(x + at) - mean[c]);
        }
      });
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_TYPES(T)                                                                                    \
  OSPREY_DISPATCH(add_moments, moments,                                                                             \
                  (const T* x, int64_t rows, int64_t depth, int64_t step, const float* center, float* scratch,      \
                   double* sum, double* square),                                                                    \
                  x, rows, depth, step, center, scratch, sum, square)                                               \
  OSPREY_DISPATCH(add_gradient_moments, gradient_moments,                                                           \
                  (const T* gradient, const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine,         \
                   float* scratch, double* sum, double* product),                                                   \
                  gradient, x, rows, depth, affine, scratch, sum, product)                                          \
  OSPREY_DISPATCH(gradient_rows, gradients,                                                                         \
                  (const T* gradient, const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine,         \
                   const float* slope, const float* offset, T* result),                                             \
                  gradient, x, rows, depth, affine, slope, offset, result)                                          \
  OSPREY_DISPATCH(                                                                                                  \
      normalize_panels, normalize_into_panels,                                                                      \
      (const T* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels, int64_t panel_step), x, \
      rows, depth, affine, panels, panel_step)                                                                      \
  OSPREY_DISPATCH(add_through_statistics, add_linear,                                                               \
                  (const T* gradient, const T* x, int64_t rows, int64_t depth, int64_t step, const float* mean,     \
                   const float* scale, const float* slope, const float* offset, float* result),                     \
                  gradient, x, rows, depth, step, mean, scale, slope, offset, result)                               \
  OSPREY_DISPATCH(add_normalized_rows, add_normalized,                                                              \
                  (const T* x, const T* addend, int64_t rows, int64_t depth, const ChannelAffine& affine, T* y), x, \
                  addend, rows, depth, affine, y)                                                                   \
  OSPREY_DISPATCH(take_back_sum_rows, take_back_sum,                                                                \
                  (const T* gradient, const T* y, const T* x, int64_t rows, int64_t depth,                          \
                   const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result),           \
                  gradient, y, x, rows, depth, affine, scratch, sum, product, result)
#define OSPREY_DISPATCH_TAKING_BACK(G, T)                                                                 \
  OSPREY_DISPATCH(take_back_rows, take_back,                                                              \
                  (const G* gradient, const T* x, int64_t rows, int64_t depth, int64_t step,              \
                   const ChannelAffine& affine, float* scratch, double* sum, double* product, T* result), \
                  gradient, x, rows, depth, step, affine, scratch, sum, product, result)
#define OSPREY_DISPATCH_NORMALIZE(T, Out)                                                                          \
  OSPREY_DISPATCH(normalize_rows, normalize,                                                                       \
                  (const T* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, Out* y), x, \
                  rows, depth, step, affine, y)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TYPES(float)
OSPREY_DISPATCH_TYPES(Bfloat16)
OSPREY_DISPATCH_TYPES(Float16)
OSPREY_DISPATCH_TAKING_BACK(float, float)
OSPREY_DISPATCH_TAKING_BACK(float, Bfloat16)
OSPREY_DISPATCH_TAKING_BACK(float, Float16)
OSPREY_DISPATCH_TAKING_BACK(Bfloat16, Bfloat16)
OSPREY_DISPATCH_TAKING_BACK(Float16, Float16)
OSPREY_DISPATCH_NORMALIZE(float, float)
OSPREY_DISPATCH_NORMALIZE(Bfloat16, Bfloat16)
OSPREY_DISPATCH_NORMALIZE(Bfloat16, float)
OSPREY_DISPATCH_NORMALIZE(Float16, Float16)
OSPREY_DISPATCH_NORMALIZE(Float16, float)

}  // namespace osprey::kernels::cpu
