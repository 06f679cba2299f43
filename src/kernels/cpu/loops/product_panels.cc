#include "kernels/cpu/loops/product_panels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/fetch.h"
#include "kernels/cpu/loops/packing.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kStepsOfAFetch = 2;

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

  /// Adds the products of `length` steps.
  /// b, b_panel  [length, kPanelColumns], the first panel of columns; from panel to panel
  /// meanwhile   called every kStepsOfAFetch steps
  template <class Rows, class Meanwhile>
  OSPREY_INLINE void add(const Rows& rows, const float* b, int64_t b_panel, int64_t length,
                         const Meanwhile& meanwhile) {
    const float* pointers[Rows::kPointers];
#pragma GCC unroll 4
    for (int k = 0; k < Rows::kPointers; ++k) pointers[k] = rows.pointer(k);
    const auto add_step = [&](int step, const float* of_columns) __attribute__((always_inline)) {
      Lanes factors[kWidth];
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c)
        factors[c] = Memory::get(of_columns + c / kParts * b_panel + c % kParts * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const auto factor = Factors::all(rows.at(pointers, r, step));
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
#pragma GCC unroll 4
      for (int k = 0; k < Rows::kPointers; ++k) {
        pointers[k] += 2 * rows.step;
        asm("" : "+r"(pointers[k]));  // or the compiler keeps a pointer to each row, and most of them in memory
      }
    }
    if (i < length) add_step(0, b);
  }
};

/// How many panels of columns a tile has: wide registers are 32 (AVX-512), others 16. Few rows and many columns take
/// the fewest instructions beside the products, which is what counts where two threads share a core.
constexpr int most_panels(int lanes) { return lanes == 16 ? 4 : 1; }

/// Calls `tile.operator()<column panels>(panel of rows, first panel of columns)` until all panels have been met.
template <int kLanes, class TileWork>
OSPREY_INLINE void for_tiles(int64_t row_panels, int64_t column_panels, const TileWork& tile) {
  constexpr int kMost = most_panels(kLanes);
  const auto across_rows = [&]<int kPanels>(int64_t column) __attribute__((always_inline)) {
    for (int64_t row = 0; row < row_panels; ++row) tile.template operator()<kPanels>(row, column);
  };
  int64_t column = 0;
  for (; column + kMost <= column_panels; column += kMost) across_rows.template operator()<kMost>(column);
  if constexpr (kMost > 1) {
    if (column + 3 == column_panels) across_rows.template operator()<3>(column);
    if (column + 2 == column_panels) across_rows.template operator()<2>(column);
    if (column + 1 == column_panels) across_rows.template operator()<1>(column);
  }
}

/// How many tiles for_tiles makes.
template <int kLanes>
OSPREY_INLINE int64_t tiles_of(int64_t row_panels, int64_t column_panels) {
  return row_panels * ((column_panels + most_panels(kLanes) - 1) / most_panels(kLanes));
}

template <int kLanes>
OSPREY_INLINE void add_windows(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_line,
                               int64_t b_panel, int64_t b_panels, const PlaceWindow& window, float* sums,
                               int64_t sums_row, int64_t sums_tap) {
  for_tiles<kLanes>(
      a_panels, b_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        for (int64_t tap = 0; tap < window.high * window.wide; ++tap) {
          float* const of_tap = sums + tap * sums_tap + i * kPanelRows * sums_row + j * kPanelColumns;
          const float* const seen = b + j * b_panel + tap / window.wide * b_line + tap % window.wide * kPanelColumns;
          const auto place = [&](int row, int panel) __attribute__((always_inline)) {
            return of_tap + row * sums_row + panel * kPanelColumns;
          };
          Tile<Singles<kLanes>, kPanels> tile;
          tile.load(place);
          for (int64_t line = 0; line < window.lines; ++line)
            tile.add(SteppedRows{a + i * kPanelRows + line * window.length * a_step, a_step}, seen + line * b_line,
                     b_panel, window.length, [] {});
          tile.store(place);
        }
      });
}

/// Fetches what a tile is going to add to, or to write: some lines of the cache in each of its rows.
template <int kPanels, class T>
OSPREY_INLINE void fetch_tile(const T* first, int64_t row_step, int64_t panel_step) {
  for (int r = 0; r < kPanelRows; ++r)
    for (int panel = 0; panel < kPanels; ++panel) __builtin_prefetch(first + r * row_step + panel * panel_step, 1, 3);
}

template <class Factors>
OSPREY_INLINE void add_to_tiles(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                                int64_t length, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles) {
  constexpr int64_t kTile = kPanelRows * kPanelColumns;
  const int64_t b_panel = length * kPanelColumns, column = a_panels * kTile;
  const int64_t calls = tiles_of<Factors::kLanes>(a_panels, b_panels) * length / kStepsOfAFetch;
  Fetch fetch(ahead, calls, a), fetch_more(more, calls, a);
  for_tiles<Factors::kLanes>(
      a_panels, b_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        float* const first = tiles + j * column + i * kTile;
        fetch_tile<kPanels>(first + kTile, kPanelColumns, column);
        const auto place = [&](int row, int panel) __attribute__((always_inline)) {
          return first + panel * column + row * kPanelColumns;
        };
        Tile<Factors, kPanels> tile;
        tile.load([&](int row, int panel)
                      __attribute__((always_inline)) { return goes_on ? place(row, panel) : nullptr; });
        tile.add(
            SteppedRows{a + i * kPanelRows, a_step}, b + j * b_panel, b_panel,
            length, [&]() __attribute__((always_inline)) {
              fetch.step();
              fetch_more.step();
            });
        tile.store(place);
      });
}

template <class Factors, class Result>
OSPREY_INLINE void multiply_by_panels(const float* rows, int64_t count, int64_t depth, const float* panels,
                                      const float* start, int64_t columns, const Ahead& ahead, Result* result) {
  using To = std::conditional_t<std::is_same_v<Result, float>, Singles<Factors::kLanes>, Factors>;
  constexpr int kLanes = Factors::kLanes, kMost = most_panels(kLanes);
  const int64_t row_panels = (count + kPanelRows - 1) / kPanelRows,
                column_panels = (columns + kPanelColumns - 1) / kPanelColumns, panel = depth * kPanelColumns;
  const PassingPanels passing{panels, panel, column_panels, kMost};
  const bool large = passing.large();
  const auto fetch_with = [&](int64_t j) __attribute__((always_inline)) {
    return Fetch(passing.next(j, ahead),
                 (large ? row_panels : tiles_of<kLanes>(row_panels, column_panels)) * depth / kStepsOfAFetch, rows);
  };
  Fetch fetch = fetch_with(0);
  for_tiles<kLanes>(
      row_panels, column_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        if (large && i == 0) fetch = fetch_with(j);
        const auto row_of = [&](int64_t p) __attribute__((always_inline)) {
          return std::min(p * kPanelRows, count - kPanelRows);  // the last ones again rather than fewer
        };
        const int64_t row = row_of(i), column = j * kPanelColumns;
        Tile<Factors, kPanels> tile;
        tile.load([&](int, int p) __attribute__((always_inline)) {
          return start != nullptr ? start + column + p * kPanelColumns : nullptr;
        });
        Result* const to = result + column;
        fetch_tile<kPanels>(to + row_of(i + 1) * columns, columns, kPanelColumns);
        tile.add(
            PlainRows{rows + row * depth, depth}, panels + j * panel, panel,
            depth, [&]() __attribute__((always_inline)) { fetch.step(); });
        if (column + kPanels * kPanelColumns <= columns) {
          tile.template store<To>([&](int r, int p) __attribute__((always_inline)) {
            return to + (row + r) * columns + p * kPanelColumns;
          });
          return;
        }
        constexpr int64_t kWhole = kPanels * kPanelColumns;
        Result whole[kPanelRows * kWhole];
        tile.template store<To>([&](int r, int p)
                                    __attribute__((always_inline)) { return whole + r * kWhole + p * kPanelColumns; });
        for (int64_t r = 0; r < kPanelRows; ++r)
          for (int64_t c = 0; c < columns - column; ++c) to[(row + r) * columns + c] = whole[r * kWhole + c];
      });
}

/// Squares of what a register holds, beginning with column `i`. Returns the first that is left.
template <class Floats>
OSPREY_INLINE int64_t transpose_squares(const float* rows, int64_t row_step, int64_t count, int64_t depth, int64_t i,
                                        float* panel) {
  constexpr int kLanes = Floats::kLanes;
  for (; i + kLanes <= depth; i += kLanes)
    for (int64_t first = 0; first < kPanelColumns; first += kLanes) {
      typename Floats::Floats square[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r)
        square[r] = first + r < count ? Floats::get(rows + (first + r) * row_step + i) : typename Floats::Floats{};
      transpose<1, kLanes>(square);
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) Floats::put(square[r], panel + (i + r) * kPanelColumns + first);
    }
  return i;
}

template <class Floats>
OSPREY_INLINE void transpose_into(const float* rows, int64_t row_step, int64_t count, int64_t depth, float* panel) {
  int64_t i = transpose_squares<Floats>(rows, row_step, count, depth, 0, panel);
  if constexpr (Floats::kLanes > 8) i = transpose_squares<Singles<8>>(rows, row_step, count, depth, i, panel);
  for (; i < depth; ++i)
    for (int64_t r = 0; r < kPanelColumns; ++r) panel[i * kPanelColumns + r] = r < count ? rows[r * row_step + i] : 0;
}

template <class Step, class T>
OSPREY_INLINE void pack(const T* map, int64_t map_step, int64_t pixels, int64_t channels, float* to, int64_t to_step,
                        int64_t panel_step) {
  using Memory = Singles<Step::kLanes>;
  constexpr int64_t kAtOnce = 16;  // pixels: those that a line of the cache reaches across panels stay in it
  for (int64_t begin = 0; begin < pixels; begin += kAtOnce) {
    const int64_t end = std::min(begin + kAtOnce, pixels);
    float* first = to + begin / Step::kPixels * to_step;
    for (int64_t c = 0; c < channels; c += kPanelColumns, first += panel_step) {
      const T* from = map + begin * map_step + c;
      float* target = first;
      int64_t pixel = begin;
      if (c + kPanelColumns <= channels) {
        for (; pixel + Step::kPixels <= end;
             pixel += Step::kPixels, from += Step::kPixels * map_step, target += to_step)
          for (int64_t i = 0; i < kPanelColumns; i += Step::kLanes)
            Memory::put(Step::at(from + i, map_step), target + i);
      }
      for (; pixel < end; pixel += Step::kPixels, from += Step::kPixels * map_step, target += to_step)
        Step::few(from, map_step, std::min(channels - c, kPanelColumns), end - pixel, target);
    }
  }
}

template <class Floats>
OSPREY_INLINE void pack_pixels(const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* to,
                               int64_t to_step, int64_t panel_step) {
  pack<OnePixel<Floats>>(map, map_step, pixels, channels, to, to_step, panel_step);
}

template <class Pairs, class T>
OSPREY_INLINE void pack_as_pairs(const T* map, int64_t map_step, int64_t pixels, int64_t channels, float* to,
                                 int64_t to_step, int64_t panel_step) {
  pack<TwoPixels<Pairs>>(map, map_step, pixels, channels, to, to_step, panel_step);
}

}  // namespace

void unpack_panel(const float* panel, int64_t rows, int64_t first, int64_t columns, float* matrix, int64_t row_step) {
  const int64_t own = std::min(columns - first, kPanelColumns);
  float* to = matrix + first;
  for (int64_t row = 0; row < rows; ++row, panel += kPanelColumns, to += row_step) {
    if (own == kPanelColumns) {
      std::memcpy(to, panel, kPanelColumns * sizeof(float));  // a size that the compiler knows: no call
    } else {
      std::copy_n(panel, own, to);
    }
  }
}

OSPREY_DISPATCH_SINGLES(pack_panels, pack_pixels,
                        (const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* to,
                         int64_t to_step, int64_t panel_step),
                        map, map_step, pixels, channels, to, to_step, panel_step)

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_PACKING(T)                                                                                     \
  OSPREY_DISPATCH_PAIRS(pack_pairs, pack_as_pairs,                                                                     \
                        (const T* map, int64_t map_step, int64_t pixels, int64_t channels, float* to, int64_t to_step, \
                         int64_t panel_step),                                                                          \
                        map, map_step, pixels, channels, to, to_step, panel_step)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_PACKING(float)
OSPREY_DISPATCH_PACKING(Bfloat16)

OSPREY_DISPATCH_SINGLES(pack_across, transpose_into,
                        (const float* rows, int64_t row_step, int64_t count, int64_t depth, float* panel), rows,
                        row_step, count, depth, panel)

OSPREY_DISPATCH_SINGLES(multiply_rows, multiply_by_panels,
                        (const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                         int64_t columns, const Ahead& ahead, float* result),
                        rows, count, depth, panels, start, columns, ahead, result)

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_PRODUCTS(T)                                                                                \
  OSPREY_DISPATCH_PAIRS(multiply_rows_of_pairs, multiply_by_panels,                                                \
                        (const float* rows, int64_t count, int64_t depth, const float* panels, const float* start, \
                         int64_t columns, const Ahead& ahead, T* result),                                          \
                        rows, count, depth, panels, start, columns, ahead, result)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_PRODUCTS(float)
OSPREY_DISPATCH_PRODUCTS(Bfloat16)

OSPREY_DISPATCH_LANES(add_window_products, add_windows,
                      (const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_line,
                       int64_t b_panel, int64_t b_panels, const PlaceWindow& window, float* sums, int64_t sums_row,
                       int64_t sums_tap),
                      a, a_step, a_panels, b, b_line, b_panel, b_panels, window, sums, sums_row, sums_tap)

OSPREY_DISPATCH_SINGLES(add_tiles, add_to_tiles,
                        (const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                         int64_t length, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles),
                        a, a_step, a_panels, b, b_panels, length, ahead, more, goes_on, tiles)

OSPREY_DISPATCH_PAIRS(add_tiles_of_pairs, add_to_tiles,
                      (const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                       int64_t length, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles),
                      a, a_step, a_panels, b, b_panels, length, ahead, more, goes_on, tiles)

}  // namespace osprey::kernels::cpu
