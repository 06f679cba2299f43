#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/fetch.h"
#include "kernels/cpu/loops/inner_products.h"
#include "kernels/cpu/loops/product_panels.h"

/// Tiles of sums that stay in registers while products are added to them.
namespace osprey::kernels::cpu {

/// The numbers of some rows, those of a step side by side.
struct SteppedRows {
  static constexpr int kPointers = 1;  ///< that go along with the steps
  const float* first;
  int64_t step;

  OSPREY_INLINE const float* pointer(int) const { return first; }
  OSPREY_INLINE const float& at(const float* const* pointers, int row, int which) const {
    return pointers[0][row + which * step];
  }
};

/// The same of rows that lie one after the other, a step after its neighbour.
struct PlainRows {
  static constexpr int kOfPointer = 3;  ///< rows: as many as an instruction finds from one pointer and one distance
  static constexpr int kPointers = kPanelRows / kOfPointer;
  static constexpr int64_t step = 1;
  const float* first;
  int64_t depth;  ///< from one row to the next

  OSPREY_INLINE const float* pointer(int k) const { return first + k * kOfPointer * depth; }
  OSPREY_INLINE const float& at(const float* const* pointers, int row, int which) const {
    return pointers[row / kOfPointer][row % kOfPointer * depth + which];
  }
};

/// Where the steps of rows lie.
template <class Rows>
struct Pointers {
  const float* of[Rows::kPointers];

  OSPREY_INLINE explicit Pointers(const Rows& rows) {
#pragma GCC unroll 4
    for (int k = 0; k < Rows::kPointers; ++k) of[k] = rows.pointer(k);
  }
  OSPREY_INLINE void go(int64_t floats) {
#pragma GCC unroll 4
    for (int k = 0; k < Rows::kPointers; ++k) {
      of[k] += floats;
      asm("" : "+r"(of[k]));  // or the compiler keeps a pointer to each row, and most of them in memory
    }
  }
};

/// Sums of products that stay in registers, for a panel of rows and some panels of columns.
template <class Factors, int kPanels>
struct Tile {
  static constexpr int kLanes = Factors::kLanes;
  using Memory = Singles<kLanes>;
  using Lanes = typename Memory::Floats;
  static constexpr int kParts = kPanelColumns / kLanes,  // registers for the columns of a panel
      kRows = kPanelRows, kWidth = kPanels * kParts;
  Lanes sums[kRows][kWidth];

  /// place  (row, panel of columns) -> where the numbers of that row begin, or null: zeros
  template <class Place>
  OSPREY_INLINE void load(const Place& place) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c) {
        const float* const from = place(r, c / kParts);
        sums[r][c] = from != nullptr ? Memory::get(from + c % kParts * kLanes) : Lanes{};
      }
  }
  /// To  how they become what there is in memory
  template <class To = Memory, class Place>
  OSPREY_INLINE void store(const Place& place) const {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c) To::put(sums[r][c], place(r, c / kParts) + c % kParts * kLanes);
  }

  /// To a matrix with `step` numbers from row to row, which has `left` columns from the first of the tile on.
  template <class To = Memory, class Result>
  OSPREY_INLINE void store_rows(Result* to, int64_t step, int64_t left) const {
    constexpr int64_t kColumns = kPanels * kPanelColumns;
    if (kColumns <= left)
      return store<To>([&](int row, int panel)
                           __attribute__((always_inline)) { return to + row * step + panel * kPanelColumns; });
    Result whole[kRows * kColumns];
    store<To>([&](int row, int panel)
                  __attribute__((always_inline)) { return whole + row * kColumns + panel * kPanelColumns; });
    for (int64_t row = 0; row < kRows; ++row)
      for (int64_t column = 0; column < left; ++column) to[row * step + column] = whole[row * kColumns + column];
  }

  /// Adds the products of `length` steps.
  /// b, b_panel  [length, kPanelColumns], the first panel of columns; from panel to panel
  /// meanwhile   called every two steps
  template <class Rows, class Meanwhile>
  OSPREY_INLINE void add(const Rows& rows, const float* b, int64_t b_panel, int64_t length,
                         const Meanwhile& meanwhile) {
    Pointers<Rows> pointers(rows);
    const auto add_step = [&](int step, const float* of_columns) __attribute__((always_inline)) {
      Lanes factors[kWidth];
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c)
        factors[c] = Memory::get(of_columns + c / kParts * b_panel + c % kParts * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto factor = Factors::all(rows.at(pointers.of, r, step));
#pragma GCC unroll 4
        for (int c = 0; c < kWidth; ++c) Factors::add(sums[r][c], factor, factors[c]);
      }
    };
    // Two steps at a time: measured on Zen 3, that is 0.98 of the machine's peak, whereas one or four depend on how the
    // compiler happens to place the code (0.8 to 0.98).
    int64_t i = 0;
    for (; i + 2 <= length; i += 2, b += 2 * kPanelColumns) {
      meanwhile();
      add_step(0, b);
      add_step(1, b + kPanelColumns);
      pointers.go(2 * rows.step);
    }
    if (i < length) add_step(0, b);
  }

  /// The sums of the products of `groups` of kInnerGroup steps, as inner_products.h says: also what is too much of
  /// them. Sums of some groups at a time are added up, which loses fewer digits than one sum of all.
  /// b, b_panel  [groups * kInnerGroup, kPanelColumns], the first panel of columns; from panel to panel
  /// meanwhile   called twice for each group
  template <class Rows, class Meanwhile>
  OSPREY_INLINE void make_inner(Rows rows, const float* b, int64_t b_panel, int64_t groups,
                                const Meanwhile& meanwhile) {
    constexpr int64_t kMost = 16;  // groups at a time: fewer take longer
    const int64_t parts = (groups + kMost - 1) / kMost;
    float totals[kRows * kPanels * kPanelColumns];
    const auto total = [&](int row, int panel) __attribute__((always_inline)) {
      return totals + (row * kPanels + panel) * kPanelColumns;
    };
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t own = (part + 1) * groups / parts - part * groups / parts, steps = own * kInnerGroup;
      load([](int, int) __attribute__((always_inline))->const float* { return nullptr; });
      add_inner(rows, b, b_panel, own, meanwhile);
      if (part > 0) plus(total);
      if (part + 1 < parts) store(total);
      rows.first += steps * rows.step;
      b += steps * kPanelColumns;
    }
  }

  /// After `make_inner`: takes away what is too much, and takes back the scales.
  /// of_row     (row, which of InnerEnd) -> the number
  /// of_column  (panel, which of InnerEnd) -> those of its columns
  template <class OfRow, class OfColumn>
  OSPREY_INLINE void finish_inner(const OfRow& of_row, const OfColumn& of_column) {
#pragma GCC unroll 4
    for (int c = 0; c < kWidth; ++c) {
      const auto get = [&](int which) __attribute__((always_inline)) {
        return Memory::get(of_column(c / kParts, which) + c % kParts * kLanes);
      };
      const Lanes correction = get(kCorrection), factor = get(kFactor), other_factor = get(kOtherFactor);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
        sums[r][c] = (sums[r][c] - correction - of_row(r, kCorrection)) * of_row(r, kFactor) * factor *
                     of_row(r, kOtherFactor) * other_factor;
    }
  }

  /// Adds what there is in memory.
  /// place  as for `load`
  template <class Place>
  OSPREY_INLINE void plus(const Place& place) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c)
        if (const float* const from = place(r, c / kParts); from != nullptr)
          sums[r][c] += Memory::get(from + c % kParts * kLanes);
  }

 private:
  /// Adds some groups to the sums, as `make_inner` does with all.
  template <class Rows, class Meanwhile>
  OSPREY_INLINE void add_inner(const Rows& rows, const float* b, int64_t b_panel, int64_t groups,
                               const Meanwhile& meanwhile) {
    Pointers<Rows> pointers(rows);
    const auto add_half = [&](auto negative, int step, const float* of_columns) __attribute__((always_inline)) {
      const auto column = [&](int c, int which) __attribute__((always_inline)) {
        return Memory::get(of_columns + c / kParts * b_panel + c % kParts * kLanes + which * kPanelColumns);
      };
      Lanes first[kWidth], second[kWidth];
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c) first[c] = column(c, 0), second[c] = column(c, 1);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Lanes one = everywhere(rows.at(pointers.of, r, step)),
                    other = everywhere(rows.at(pointers.of, r, step + 1)),
                    plain = everywhere(rows.at(pointers.of, r, step + 2));
#pragma GCC unroll 4
        for (int c = 0; c < kWidth; ++c) {
          if constexpr (decltype(negative)::value) {
            sums[r][c] -= (one - second[c]) * (other - first[c]);
          } else {
            sums[r][c] += (one + second[c]) * (other + first[c]);
          }
          sums[r][c] += plain * column(c, 2);
        }
      }
    };
    constexpr int kHalf = kInnerGroup / 2;
    for (int64_t i = 0; i < groups; ++i, b += kInnerGroup * kPanelColumns) {
      meanwhile();
      add_half(std::false_type(), 0, b);
      meanwhile();
      add_half(std::true_type(), kHalf, b + kHalf * kPanelColumns);
      pointers.go(kInnerGroup * rows.step);
    }
  }

  /// In all lanes. (As assembly: the compiler would take the instruction for floats, which takes a turn of those units
  /// that add and multiply, where the one for integers takes none.)
  static OSPREY_INLINE Lanes everywhere(const float& number) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
    if constexpr (kLanes == 16) {
      Lanes result;
      asm("vpbroadcastd %1, %0" : "=v"(result) : "m"(number));
      return result;
    }
#endif
    using Bits = typename Vector<kLanes>::Bits;
    return std::bit_cast<Lanes>(Bits{} + std::bit_cast<uint32_t>(number));
  }
};

/// Calls `tile.operator()<column panels>(panel of rows, first panel of columns)` until all panels have been met.
/// kMost  panels of columns at a time
template <int kMost, class TileWork>
OSPREY_INLINE void for_tiles(int64_t row_panels, int64_t column_panels, const TileWork& tile) {
  const auto across_rows = [&]<int kPanels>(int64_t column) __attribute__((always_inline)) {
    for (int64_t row = 0; row < row_panels; ++row) tile.template operator()<kPanels>(row, column);
  };
  int64_t column = 0;
  for (; column + kMost <= column_panels; column += kMost) across_rows.template operator()<kMost>(column);
  if constexpr (kMost > 3)
    if (column + 3 == column_panels) across_rows.template operator()<3>(column);
  if constexpr (kMost > 2)
    if (column + 2 == column_panels) across_rows.template operator()<2>(column);
  if constexpr (kMost > 1)
    if (column + 1 == column_panels) across_rows.template operator()<1>(column);
}

/// How many tiles for_tiles makes.
template <int kMost>
OSPREY_INLINE int64_t tiles_of(int64_t row_panels, int64_t column_panels) {
  return row_panels * ((column_panels + kMost - 1) / kMost);
}

/// Fetches what a tile is going to add to, or to write: some lines of the cache in each of its rows.
template <int kPanels, class T>
OSPREY_INLINE void fetch_tile(const T* first, int64_t row_step, int64_t panel_step) {
  for (int r = 0; r < kPanelRows; ++r)
    for (int panel = 0; panel < kPanels; ++panel) __builtin_prefetch(first + r * row_step + panel * panel_step, 1, 3);
}

/// The tiles of rows times panels of columns: calls `make.operator()<panels>(first row, first panel, meanwhile)` for
/// each, which writes it, and calls meanwhile() some times for what is to be fetched.
///
/// kMost   panels of columns at a time
/// count   rows, at least kLeastRows; the last of them are made again rather than fewer at a time
/// panel   floats from one panel to the next
/// calls   of meanwhile(), for each tile
/// result  [count, columns], which make writes
template <int kMost, class Result, class Make>
OSPREY_INLINE void for_products(int64_t count, int64_t columns, const float* panels, int64_t panel, int64_t calls,
                                const Ahead& ahead, const Result* result, const Make& make) {
  const int64_t row_panels = (count + kPanelRows - 1) / kPanelRows,
                column_panels = (columns + kPanelColumns - 1) / kPanelColumns;
  const PassingPanels passing{panels, panel, column_panels, kMost};
  const bool large = passing.large();
  const auto fetch_with = [&](int64_t j) __attribute__((always_inline)) {
    return Fetch(passing.next(j, ahead), (large ? row_panels : tiles_of<kMost>(row_panels, column_panels)) * calls,
                 panels);
  };
  Fetch fetch = fetch_with(0);
  for_tiles<kMost>(
      row_panels, column_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        if (large && i == 0) fetch = fetch_with(j);
        const auto row_of = [&](int64_t p) __attribute__((always_inline)) {
          return std::min(p * kPanelRows, count - kPanelRows);
        };
        fetch_tile<kPanels>(result + row_of(i + 1) * columns + j * kPanelColumns, columns, kPanelColumns);
        make.template operator()<kPanels>(
            row_of(i), j, [&]() __attribute__((always_inline)) { fetch.step(); });
      });
}

/// The tiles of products that are summed over places: calls `add.operator()<panels>(panel of rows, first panel of
/// columns, place, meanwhile)` for each, which adds to what is at place(row, panel), and calls meanwhile() some times.
///
/// calls  of meanwhile(), for each tile
/// tiles  [b_panels, a_panels, kPanelRows, kPanelColumns]
template <int kMost, class Add>
OSPREY_INLINE void for_sums(int64_t a_panels, int64_t b_panels, int64_t calls, const Ahead& ahead, const Ahead& more,
                            float* tiles, const Add& add) {
  constexpr int64_t kTile = kPanelRows * kPanelColumns;
  const int64_t column = a_panels * kTile, all_calls = tiles_of<kMost>(a_panels, b_panels) * calls;
  Fetch fetch(ahead, all_calls, tiles), fetch_more(more, all_calls, tiles);
  for_tiles<kMost>(
      a_panels, b_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        float* const first = tiles + j * column + i * kTile;
        fetch_tile<kPanels>(first + kTile, kPanelColumns, column);
        add.template operator()<kPanels>(
            i, j,
            [&](int row, int panel)
                __attribute__((always_inline)) { return first + panel * column + row * kPanelColumns; },
            [&]() __attribute__((always_inline)) {
              fetch.step();
              fetch_more.step();
            });
      });
}

}  // namespace osprey::kernels::cpu
