#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/product_panels.h"

/// What brings numbers into the order in which they are multiplied.
namespace osprey::kernels::cpu {

/// The lanes of a with kHalf in their number, and those of b without, change places.
template <int kHalf, class V, int... kLane>
OSPREY_INLINE void swap_lanes(V& a, V& b, std::integer_sequence<int, kLane...>) {
  constexpr int kLanes = sizeof...(kLane);
  const V first = __builtin_shufflevector(a, b, ((kLane & kHalf) == 0 ? kLane : kLane - kHalf + kLanes)...);
  b = __builtin_shufflevector(a, b, ((kLane & kHalf) == 0 ? kLane + kHalf : kLane + kLanes)...);
  a = first;
}

/// Lane i of row r becomes lane r of row i.
template <int kHalf, int kLanes>
OSPREY_INLINE void transpose(typename Vector<kLanes>::Floats (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if ((i & kHalf) == 0) swap_lanes<kHalf>(rows[i], rows[i + kHalf], std::make_integer_sequence<int, kLanes>());
  if constexpr (2 * kHalf < kLanes) transpose<2 * kHalf, kLanes>(rows);
}

/// What is packed at a time: a pixel.
template <class Floats>
struct OnePixel {
  static constexpr int kLanes = Floats::kLanes;
  static constexpr int64_t kPixels = 1;

  static OSPREY_INLINE typename Floats::Floats at(const float* from, int64_t) { return Floats::get(from); }
  /// Up to kPanelColumns channels, one by one.
  static OSPREY_INLINE void few(const float* from, int64_t, int64_t channels, int64_t, float* to) {
    for (int64_t i = 0; i < kPanelColumns; ++i) to[i] = i < channels ? from[i] : 0;
  }
};

/// Two pixels, as pairs.
template <class Pairs>
struct TwoPixels {
  static constexpr int kLanes = Pairs::kLanes;
  static constexpr int64_t kPixels = 2;

  template <class T>
  static OSPREY_INLINE typename Pairs::Floats at(const T* from, int64_t map_step) {
    return Pairs::pairs(halves(from), halves(from + map_step));
  }
  /// With nothing for the second.
  template <class T>
  static OSPREY_INLINE typename Pairs::Floats first(const T* from) {
    return Pairs::pairs(halves(from), typename Pairs::Halves{});
  }
  /// pixels  that there are, 1 or more
  template <class T>
  static OSPREY_INLINE void few(const T* from, int64_t map_step, int64_t channels, int64_t pixels, float* to) {
    Bfloat16 numbers[2 * kPanelColumns] = {};
    for (int64_t pixel = 0; pixel < std::min(pixels, kPixels); ++pixel)
      for (int64_t i = 0; i < channels; ++i) store(numbers + 2 * i + pixel, load(from + pixel * map_step + i));
    std::memcpy(to, numbers, sizeof(numbers));
  }

 private:
  static OSPREY_INLINE typename Pairs::Halves halves(const float* from) {
    return Pairs::halves(Singles<kLanes>::get(from));
  }
  static OSPREY_INLINE typename Pairs::Halves halves(const Bfloat16* from) { return Pairs::halves(from); }
};

}  // namespace osprey::kernels::cpu
