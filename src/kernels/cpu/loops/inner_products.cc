#include "kernels/cpu/loops/inner_products.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "kernels/cpu/loops/channel_rows.h"
#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/lanes.h"
#include "kernels/cpu/loops/product_tiles.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kHalfGroup = kInnerGroup / 2;

/// With what sign each step adds to the correction, times the next one.
constexpr float kSigns[] = {1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0,
                            1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0, 1, 0, 0, -1, 0, 0};
static_assert(std::size(kSigns) == kWholeSteps && kInnerGroup == 6);

OSPREY_INLINE float absolute_value(float x) { return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0x7fffffff); }
OSPREY_INLINE uint32_t exponent_of(float x) { return std::bit_cast<uint32_t>(x) >> 23; }

/// A power of two near the norm of some numbers, as the exponent in the bits of a float. (The norm is at least the
/// largest of them, and at most the root of that times their sum, to which it is close. Squares of numbers may be
/// beyond what floats can be.)
/// most, sum  of absolute values
OSPREY_INLINE uint32_t norm_exponent(float most, float sum) {
  constexpr uint32_t kLargest = 253;  // of which the inverse is a normal number
  const uint32_t exponent = (exponent_of(most) + exponent_of(sum)) / 2;
  return exponent < kLargest ? exponent : kLargest;
}
OSPREY_INLINE float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23); }

/// What numbers are multiplied by, and then results, for numbers of which the largest is `most` and the sum `sum`.
struct Scale {
  float scale, factor, other_factor;

  OSPREY_INLINE Scale(float most, float sum) {
    constexpr int kOne = 127;  // the exponent of 1
    const int exponent = static_cast<int>(norm_exponent(most, sum)), half = (exponent - kOne) >> 1;
    scale = power_of_two(2 * kOne - exponent);
    factor = exponent_of(most) == 0 ? 0 : power_of_two(kOne + half);  // 0: no normal number
    other_factor = power_of_two(exponent - half);
  }
};

template <class Floats>
OSPREY_INLINE typename Floats::Floats absolute_values(const typename Floats::Floats& x) {
  using Bits = typename Vector<Floats::kLanes>::Bits;
  return std::bit_cast<typename Floats::Floats>(std::bit_cast<Bits>(x) & 0x7fffffff);
}

/// How two numbers, or all of two registers, become one.
struct Sum {
  static OSPREY_INLINE float of(float a, float b) { return a + b; }
  template <int kOf, class Lanes>
  static OSPREY_INLINE Lanes of_each(const Lanes& a, const Lanes& b) {
    return a + b;
  }
};
struct Larger {
  static OSPREY_INLINE float of(float a, float b) { return a > b ? a : b; }
  /// As assembly: what the compiler makes of a choice between vectors in a function that is inlined is one number after
  /// the other.
  /// kOf  lanes of the registers that there are
  template <int kOf, class Lanes>
  static OSPREY_INLINE Lanes of_each(const Lanes& a, const Lanes& b) {
    Lanes result = b;
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if constexpr (kOf == 16) {
      asm("vmaxps %2, %1, %0" : "=v"(result) : "v"(a), "v"(b));
      return result;
    }
#endif
    for (size_t k = 0; k < sizeof(Lanes) / sizeof(float); ++k) result[k] = of(a[k], b[k]);
    return result;
  }
};

/// Of all lanes, by halves: one after the other, each would wait for the one before.
template <class Join, int kOf, int kLanes = kOf>
OSPREY_INLINE float joined(const typename Vector<kLanes>::Floats& lanes) {
  if constexpr (kLanes == 4) {
    return Join::of(Join::of(lanes[0], lanes[2]), Join::of(lanes[1], lanes[3]));
  } else {
    struct Halves {
      typename Vector<kLanes / 2>::Floats low, high;
    };
    const auto halves = std::bit_cast<Halves>(lanes);
    return joined<Join, kOf, kLanes / 2>(Join::template of_each<kOf>(halves.low, halves.high));
  }
}

/// kRows rows: as many, since each sum waits for what was added to it last.
template <class Floats, int kRows>
OSPREY_INLINE void balance_some_rows(const float* rows, int64_t depth, float* to) {
  using Lanes = typename Floats::Floats;
  const int64_t steps = inner_steps(depth), size = inner_row_size(depth);
  Lanes mosts[kRows], sums[kRows], corrections[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) mosts[r] = sums[r] = corrections[r] = Lanes{};
  int64_t whole = 0;
  for (; whole + Floats::kLanes <= depth; whole += Floats::kLanes)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const Lanes numbers = absolute_values<Floats>(Floats::get(rows + r * depth + whole));
      mosts[r] = Larger::of_each<Floats::kLanes>(mosts[r], numbers);
      sums[r] += numbers;
    }
  float scales[kRows], factors[kRows], other_factors[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float most = joined<Larger, Floats::kLanes>(mosts[r]), sum = joined<Sum, Floats::kLanes>(sums[r]);
    for (int64_t k = whole; k < depth; ++k) {
      const float number = absolute_value(rows[r * depth + k]);
      most = Larger::of(most, number);
      sum += number;
    }
    const Scale own(most, sum);
    scales[r] = own.scale;
    factors[r] = own.factor;
    other_factors[r] = own.other_factor;
  }
  for (int64_t k = 0; k < whole; k += Floats::kLanes)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) Floats::put(Floats::get(rows + r * depth + k) * scales[r], to + r * size + k);
  for (int r = 0; r < kRows; ++r) {
    for (int64_t k = whole; k < size; k += Floats::kLanes) Floats::put(Lanes{}, to + r * size + k);
    for (int64_t k = whole; k < depth; ++k) to[r * size + k] = rows[r * depth + k] * scales[r];
  }
  for (int64_t first = 0; first < steps; first += kWholeSteps)
    for (int64_t s = 0; s < kWholeSteps; s += Floats::kLanes) {
      const Lanes signs = Floats::get(kSigns + s);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const float* const numbers = to + r * size + first + s;
        corrections[r] += Floats::get(numbers) * signs * Floats::get(numbers + 1);
      }
    }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    to[r * size + steps + kCorrection] = joined<Sum, Floats::kLanes>(corrections[r]);
    to[r * size + steps + kFactor] = factors[r];
    to[r * size + steps + kOtherFactor] = other_factors[r];
  }
}

template <class Floats>
OSPREY_INLINE void balance_each_row(const float* rows, int64_t count, int64_t depth, float* to) {
  for_rows(
      0, count, [&](auto some, int64_t row) __attribute__((always_inline)) {
        balance_some_rows<Floats, decltype(some)::value>(rows + row * depth, depth, to + row * inner_row_size(depth));
      });
}

template <class Floats>
OSPREY_INLINE void balance_each_column(float* columns, int64_t step, int64_t depth, int64_t count) {
  using Lanes = typename Floats::Floats;
  const int64_t steps = inner_steps(depth), whole = (count + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
  for (int64_t first = 0; first < whole; first += Floats::kLanes) {
    float* const own = columns + first;
    Lanes mosts[2] = {}, sums[2] = {}, corrections = {};  // of every other number, for the reason above
    const auto look_at = [&](int64_t i, int which) __attribute__((always_inline)) {
      const Lanes numbers = absolute_values<Floats>(Floats::get(own + i * step));
      mosts[which] = Larger::of_each<Floats::kLanes>(mosts[which], numbers);
      sums[which] += numbers;
    };
    int64_t at = 0;
    for (; at + 2 <= depth; at += 2) {
      look_at(at, 0);
      look_at(at + 1, 1);
    }
    if (at < depth) look_at(at, 0);
    const Few<Floats> most(Larger::of_each<Floats::kLanes>(mosts[0], mosts[1])), sum(sums[0] + sums[1]);
    Few<Floats> scale, factor, other_factor;
    each<Floats>([&](int k) __attribute__((always_inline)) {
      const Scale of_column(most[k], sum[k]);
      scale[k] = of_column.scale;
      factor[k] = of_column.factor;
      other_factor[k] = of_column.other_factor;
    });
    const Lanes scales = scale.all();
    for (int64_t i = depth; i < steps; ++i) Floats::put(Lanes{}, own + i * step);
    for (int64_t i = 0; i < steps; i += kHalfGroup) {
      float* const these = own + i * step;
      const Lanes one = Floats::get(these) * scales, other = Floats::get(these + step) * scales;
      Floats::put(one, these);
      Floats::put(other, these + step);
      Floats::put(Floats::get(these + 2 * step) * scales, these + 2 * step);
      corrections += i % kInnerGroup == 0 ? one * other : -one * other;
    }
    Floats::put(corrections, own + (steps + kCorrection) * step);
    factor.put(own + (steps + kFactor) * step);
    other_factor.put(own + (steps + kOtherFactor) * step);
  }
}

/// Panels of columns of a tile: that many sums, two numbers of each column and what is made of them fill the registers.
constexpr int panels_at_a_time(int lanes) { return lanes == 16 ? 3 : 1; }

template <class Floats>
OSPREY_INLINE void multiply_rows_by_groups(const float* rows, int64_t count, int64_t depth, const float* panels,
                                           const float* start, int64_t columns, const Ahead& ahead, float* result) {
  const int64_t steps = inner_steps(depth), panel = (steps + kInnerEnds) * kPanelColumns, size = inner_row_size(depth);
  for_products<panels_at_a_time(Floats::kLanes)>(
      count, columns, panels, panel, steps / kHalfGroup, ahead,
      result, [&]<int kPanels>(int64_t row, int64_t j, const auto& meanwhile) __attribute__((always_inline)) {
        const int64_t column = j * kPanelColumns;
        const float *const own = rows + row * size, *const of_columns = panels + j * panel;
        Tile<Floats, kPanels> tile;
        tile.make_inner(PlainRows{own, size}, of_columns, panel, steps / kInnerGroup, meanwhile);
        tile.finish_inner(
            [&](int r, int which) __attribute__((always_inline)) { return own[r * size + steps + which]; },
            [&](int p, int which)
                __attribute__((always_inline)) { return of_columns + p * panel + (steps + which) * kPanelColumns; });
        if (start != nullptr)
          tile.plus([&](int, int p) __attribute__((always_inline)) { return start + column + p * kPanelColumns; });
        tile.store_rows(result + row * columns + column, columns, columns - column);
      });
}

template <class Floats>
OSPREY_INLINE void add_groups_to_tiles(const float* a, int64_t a_step, int64_t a_panels, const float* b,
                                       int64_t b_panels, int64_t places, const Ahead& ahead, const Ahead& more,
                                       bool goes_on, float* tiles) {
  const int64_t steps = inner_steps(places), b_panel = (steps + kInnerEnds) * kPanelColumns;
  for_sums<panels_at_a_time(Floats::kLanes)>(
      a_panels, b_panels, steps / kHalfGroup, ahead, more, tiles,
      [&]<int kPanels>(int64_t i, int64_t j, const auto& place, const auto& meanwhile) __attribute__((always_inline)) {
        const float *const of_rows = a + i * kPanelRows, *const of_columns = b + j * b_panel;
        Tile<Floats, kPanels> tile;
        tile.make_inner(SteppedRows{of_rows, a_step}, of_columns, b_panel, steps / kInnerGroup, meanwhile);
        tile.finish_inner(
            [&](int r, int which) __attribute__((always_inline)) { return of_rows[(steps + which) * a_step + r]; },
            [&](int p, int which)
                __attribute__((always_inline)) { return of_columns + p * b_panel + (steps + which) * kPanelColumns; });
        if (goes_on) tile.plus(place);
        tile.store(place);
      });
}

}  // namespace

OSPREY_DISPATCH_SINGLES(balance_rows, balance_each_row, (const float* rows, int64_t count, int64_t depth, float* to),
                        rows, count, depth, to)

OSPREY_DISPATCH_SINGLES(balance_columns, balance_each_column,
                        (float* columns, int64_t step, int64_t depth, int64_t count), columns, step, depth, count)

OSPREY_DISPATCH_SINGLES(multiply_by_inner_products, multiply_rows_by_groups,
                        (const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                         int64_t columns, const Ahead& ahead, float* result),
                        rows, count, depth, panels, start, columns, ahead, result)

OSPREY_DISPATCH_SINGLES(add_inner_products, add_groups_to_tiles,
                        (const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                         int64_t places, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles),
                        a, a_step, a_panels, b, b_panels, places, ahead, more, goes_on, tiles)

}  // namespace osprey::kernels::cpu
