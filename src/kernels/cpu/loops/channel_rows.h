#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/arithmetic/curve.h"
#include "kernels/cpu/loops/lanes.h"

/// How loops go over rows of channels: as many channels at a time as a register holds, of a few rows.
namespace osprey::kernels::cpu {

/// Calls `body(how many, first row)` for four rows at a time, which read what a channel has once, then for single ones.
template <class Body>
OSPREY_INLINE void for_rows(int64_t begin, int64_t end, const Body& body) {
  int64_t row = begin;
  for (; row + 4 <= end; row += 4) body(std::integral_constant<int, 4>(), row);
  for (; row < end; ++row) body(std::integral_constant<int, 1>(), row);
}

/// What is the same for all rows of some channels. (Held in registers: the compiler would read it again after each
/// number that is written, which might have changed it.)
template <class N>
using OfChannels = Few<FloatsLike<N>>;

/// What a batch norm has for some channels.
template <class N>
struct Normalizing {
  OfChannels<N> mean, scale, shift;
  OSPREY_INLINE Normalizing(const ChannelAffine& affine, int64_t c)
      : mean(affine.mean + c), scale(affine.scale + c), shift(affine.shift + c) {}
};

/// Calls work.operator()<kind of numbers>(channel, for_each_row), as many channels at a time as a register holds; it
/// calls for_each_row(of_row) once, which calls of_row(row) for some rows.
template <class Numbers, class Work>
OSPREY_INLINE void for_numbers(int64_t rows, int64_t depth, const Work& work) {
  for_rows(
      0, rows, [&](auto some, int64_t row) __attribute__((always_inline)) {
        for_lanes<Numbers>(
            depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
              work.template operator()<N>(
                  c, [&](const auto& of_row) __attribute__((always_inline)) {
#pragma GCC unroll 4
                    for (int r = 0; r < decltype(some)::value; ++r) of_row(row + r);
                  });
            });
      });
}

/// The same with of_row(row, sums), of which what has been added to the floats sums[0], sums[1], ... joins the doubles
/// of each channel. (Rows take turns with two of each: the shorter a sum, the less is lost of its digits.)
/// scratch  [kSums * depth]
/// totals   [depth] each, to which the sums are added
template <class Numbers, size_t kSums, class Work>
OSPREY_INLINE void with_sums(int64_t rows, int64_t depth, float* scratch, const std::array<double*, kSums>& totals,
                             const Work& work) {
  constexpr int64_t kRows = 128;  // that are summed as floats before they join the doubles
  const int64_t numbers = static_cast<int64_t>(kSums) * depth;
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = begin + kRows < rows ? begin + kRows : rows;
    for (int64_t i = 0; i < numbers; ++i) scratch[i] = 0;
    for_rows(
        begin, end, [&](auto some, int64_t row) __attribute__((always_inline)) {
          for_lanes<Numbers>(
              depth, [&]<class N>(int64_t c) __attribute__((always_inline)) {
                using Sums = Few<FloatsLike<N>>;
                Sums own[2][kSums];
#pragma GCC unroll 2
                for (size_t s = 0; s < kSums; ++s)
                  each<N>([&](int i) __attribute__((always_inline)) { own[0][s][i] = own[1][s][i] = 0; });
                work.template operator()<N>(
                    c, [&](const auto& of_row) __attribute__((always_inline)) {
#pragma GCC unroll 4
                      for (int r = 0; r < decltype(some)::value; ++r) of_row(row + r, own[r % 2]);
                    });
#pragma GCC unroll 2
                for (size_t s = 0; s < kSums; ++s) {
                  float* const at = scratch + static_cast<int64_t>(s) * depth + c;
                  Sums sum(at);
                  each<N>([&](int i) __attribute__((always_inline)) { sum[i] += own[0][s][i] + own[1][s][i]; });
                  sum.put(at);
                }
              });
        });
    for (size_t s = 0; s < kSums; ++s)
      for (int64_t c = 0; c < depth; ++c) totals[s][c] += scratch[static_cast<int64_t>(s) * depth + c];
  }
}

}  // namespace osprey::kernels::cpu
