#include "kernels/cpu/loops/pool_rows.h"

#include <cstring>

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/lanes.h"

namespace osprey::kernels::cpu {
namespace {

/// The taps of as many neighbouring channels as floats come at a time.
template <int kLanes>
struct TapsOf {
  OSPREY_INLINE explicit TapsOf(const uint8_t* from) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if constexpr (kLanes == 16) {  // of AVX-512; the compiler would take four registers of a quarter of the size
      typename Vector<kLanes>::Bits widened;
      asm("vpmovzxbd %1, %0" : "=v"(widened) : "m"(*reinterpret_cast<const uint8_t(*)[kLanes]>(from)));
      std::memcpy(number, &widened, sizeof number);
      return;
    }
#endif
    for (int k = 0; k < kLanes; ++k) number[k] = from[k];
  }
  int32_t number[kLanes];
};

template <class Numbers>
OSPREY_INLINE void largest(const PoolLine& line, const typename Numbers::Element* first, int64_t lines, int64_t tap,
                           typename Numbers::Element* y, uint8_t* taps) {
  const int64_t depth = line.depth, line_size = line.pixels * depth;
  for (int64_t window = 0; window < line.windows; ++window) {
    const int64_t start = window * line.stride - line.before, begin = start < 0 ? 0 : start,
                  end = start + line.kernel < line.pixels ? start + line.kernel : line.pixels;
    for_lanes<Numbers>(
        depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
          int32_t number = static_cast<int32_t>(tap * line.kernel + begin - start);
          Few<N> values(first + begin * depth + c);
          int32_t chosen[N::kLanes];
          each<N>([&](int k) __attribute__((always_inline)) { chosen[k] = number; });
          for (int64_t i = 0; i < lines; ++i, number += static_cast<int32_t>(line.kernel))
            for (int64_t j = begin; j < end; ++j) {
              const Few<N> seen(first + i * line_size + j * depth + c);
              const int32_t of_seen = number + static_cast<int32_t>(j - begin);
              each<N>([&](int k) __attribute__((always_inline)) {
                const bool taken = seen[k] > values[k] || seen[k] != seen[k];
                values[k] = taken ? seen[k] : values[k];
                chosen[k] = taken ? of_seen : chosen[k];
              });
            }
          values.put(y + window * depth + c);
          uint8_t* const to = taps + window * depth + c;
          each<N>([&](int k) __attribute__((always_inline)) { to[k] = static_cast<uint8_t>(chosen[k]); });
        });
  }
}

template <class Numbers>
OSPREY_INLINE void gradients(const PoolLine& line, const typename Numbers::Element* first, const uint8_t* taps,
                             int64_t lines, int64_t tap, typename Numbers::Element* result) {
  const int64_t depth = line.depth, line_size = line.windows * depth;
  for (int64_t pixel = 0; pixel < line.pixels; ++pixel) {
    const int64_t right = pixel + line.before, reach = right - line.kernel + line.stride,
                  begin = reach < 0 ? 0 : reach / line.stride,
                  end = right / line.stride < line.windows ? right / line.stride + 1 : line.windows;
    for_lanes<Numbers>(
        depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
          Few<N> sum;
          each<N>([&](int k) __attribute__((always_inline)) { sum[k] = 0; });
          for (int64_t i = 0; i < lines; ++i)
            for (int64_t window = begin; window < end; ++window) {
              const int64_t at = i * line_size + window * depth + c;
              const auto number =
                  static_cast<int32_t>((tap - i * line.stride) * line.kernel + right - window * line.stride);
              const Few<N> given(first + at);
              const TapsOf<N::kLanes> chosen(taps + at);
              each<N>([&](int k)
                          __attribute__((always_inline)) { sum[k] += chosen.number[k] == number ? given[k] : 0.0f; });
            }
          sum.put(result + pixel * depth + c);
        });
  }
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type, `DISPATCH` one of the macros for kinds of numbers
#define OSPREY_DISPATCH_TYPE(DISPATCH, T)                                                                            \
  DISPATCH(max_pool_line, largest,                                                                                   \
           (const PoolLine& line, const T* first, int64_t lines, int64_t tap, T* y, uint8_t* taps), line, first,     \
           lines, tap, y, taps)                                                                                      \
  DISPATCH(max_pool_line_back, gradients,                                                                            \
           (const PoolLine& line, const T* first, const uint8_t* taps, int64_t lines, int64_t tap, T* result), line, \
           first, taps, lines, tap, result)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_SINGLES, float)
OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_PAIRS, Bfloat16)
OSPREY_DISPATCH_TYPE(OSPREY_DISPATCH_HALVES, Float16)

}  // namespace osprey::kernels::cpu
