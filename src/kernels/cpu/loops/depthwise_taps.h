#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/arithmetic/inline.h"
#include "kernels/cpu/loops/depthwise_rows.h"

/// What belongs to a few taps of a depthwise convolution, in registers.
namespace osprey::kernels::cpu {

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

/// What belongs to the taps of a block, of some channels; it stays in registers while all pixels pass by.
template <class Some, int kRows, int kColumns>
struct Taps {
  typename Some::Value of[kRows][kColumns];

  template <class T>
  static OSPREY_INLINE T* place(const OfTaps<T>& all, int64_t row, int64_t column, int64_t c) {
    return all.first + c / kLanes * all.lanes_step + row * all.row_step + column * all.column_step + c % kLanes;
  }
  template <class T>
  OSPREY_INLINE Taps(const OfTaps<T>& all, int64_t row, int64_t column, int64_t c) {
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int k = 0; k < kColumns; ++k) of[r][k] = Some::at(place(all, row + r, column + k, c));
  }
  OSPREY_INLINE void write(const OfTaps<float>& all, int64_t row, int64_t column, int64_t c) const {
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 3
      for (int k = 0; k < kColumns; ++k) Some::at(place(all, row + r, column + k, c)) = of[r][k];
  }
};

}  // namespace osprey::kernels::cpu
