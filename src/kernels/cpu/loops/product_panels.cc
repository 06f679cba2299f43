#include "kernels/cpu/loops/product_panels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/packing.h"
#include "kernels/cpu/loops/product_tiles.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kStepsOfAFetch = 2;

/// How many panels of columns a tile has: wide registers are 32 (AVX-512), others 16. Few rows and many columns take
/// the fewest instructions beside the products, which is what counts where two threads share a core.
constexpr int most_panels(int lanes) { return lanes == 16 ? 4 : 1; }

template <int kLanes>
OSPREY_INLINE void add_windows(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_line,
                               int64_t b_panel, int64_t b_panels, const PlaceWindow& window, float* sums,
                               int64_t sums_row, int64_t sums_tap) {
  for_tiles<most_panels(kLanes)>(
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

template <class Factors>
OSPREY_INLINE void add_to_tiles(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                                int64_t length, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles) {
  const int64_t b_panel = length * kPanelColumns;
  for_sums<most_panels(Factors::kLanes)>(
      a_panels, b_panels, length / kStepsOfAFetch, ahead, more, tiles,
      [&]<int kPanels>(int64_t i, int64_t j, const auto& place, const auto& meanwhile) __attribute__((always_inline)) {
        Tile<Factors, kPanels> tile;
        tile.load([&](int row, int panel) __attribute__((always_inline))->const float* {
          return goes_on ? place(row, panel) : nullptr;
        });
        tile.add(SteppedRows{a + i * kPanelRows, a_step}, b + j * b_panel, b_panel, length, meanwhile);
        tile.store(place);
      });
}

template <class Factors, class Result>
OSPREY_INLINE void multiply_by_panels(const float* rows, int64_t count, int64_t depth, const float* panels,
                                      const float* start, int64_t columns, const Ahead& ahead, Result* result) {
  using To = std::conditional_t<std::is_same_v<Result, float>, Singles<Factors::kLanes>, Factors>;
  const int64_t panel = depth * kPanelColumns;
  for_products<most_panels(Factors::kLanes)>(
      count, columns, panels, panel, depth / kStepsOfAFetch, ahead,
      result, [&]<int kPanels>(int64_t row, int64_t j, const auto& meanwhile) __attribute__((always_inline)) {
        const int64_t column = j * kPanelColumns;
        Tile<Factors, kPanels> tile;
        tile.load([&](int, int p) __attribute__((always_inline)) {
          return start != nullptr ? start + column + p * kPanelColumns : nullptr;
        });
        tile.add(PlainRows{rows + row * depth, depth}, panels + j * panel, panel, depth, meanwhile);
        tile.template store_rows<To>(result + row * columns + column, columns, columns - column);
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
