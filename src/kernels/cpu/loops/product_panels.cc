#include "kernels/cpu/loops/product_panels.h"

#include <algorithm>

#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

constexpr int64_t kLine = 16;  // floats of a line of the cache
constexpr int64_t kStepsOfAFetch = 2;

/// Memory fetched a little with every other step of a product, of which there are about so many. (All at once, fetching
/// would keep the loads of the product itself waiting.)
class Fetch {
 public:
  /// instead  some memory, for where there is nothing to be fetched
  OSPREY_INLINE Fetch(const Ahead& ahead, int64_t steps, const float* instead)
      : next_(ahead.size > 0 ? ahead.from : instead), end_(next_ + ahead.size) {
    const int64_t calls = steps / kStepsOfAFetch;
    if (calls > 0) floats_ = std::min((ahead.size + calls - 1) / calls, kLine);
  }
  OSPREY_INLINE void step() {
    __builtin_prefetch(next_, 0, 2);
    next_ += next_ < end_ ? floats_ : 0;
  }

 private:
  const float *next_, *end_;
  int64_t floats_ = 0;
};

/// The numbers of a panel of rows, step by step, as a panel has them.
struct PanelRows {
  static constexpr int kPointers = 1;  ///< that go along with the steps
  static constexpr int64_t kStep = kPanelRows;
  const float* first;

  OSPREY_INLINE const float* pointer(int) const { return first; }
  OSPREY_INLINE float at(const float* const* pointers, int row, int step) const {
    return pointers[0][row + step * kStep];
  }
};

/// The same of rows that lie one after the other, a step after its neighbour.
struct PlainRows {
  static constexpr int kOfPointer = 3;  ///< rows: as many as an instruction finds from one pointer and one distance
  static constexpr int kPointers = kPanelRows / kOfPointer;
  static constexpr int64_t kStep = 1;
  const float* first;
  int64_t depth;  ///< from one row to the next

  OSPREY_INLINE const float* pointer(int k) const { return first + k * kOfPointer * depth; }
  OSPREY_INLINE float at(const float* const* pointers, int row, int step) const {
    return pointers[row / kOfPointer][row % kOfPointer * depth + step];
  }
};

/// Sums of products that stay in registers, for a panel of rows and some panels of columns.
/// kLanes  floats that a register holds
template <int kLanes, int kPanels>
struct Tile {
  typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  static constexpr int kParts = kPanelColumns / kLanes,  // registers for the columns of a panel
      kRows = kPanelRows, kWidth = kPanels * kParts;
  Lanes sums[kRows][kWidth];

  static OSPREY_INLINE const Lanes& at(const float* place) { return *reinterpret_cast<const Lanes*>(place); }
  static OSPREY_INLINE Lanes& at(float* place) { return *reinterpret_cast<Lanes*>(place); }

  /// place  (row, panel of columns) -> where the numbers of that row begin, or null: zeros
  template <class Place>
  OSPREY_INLINE void load(const Place& place) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c) {
        const float* const from = place(r, c / kParts);
        sums[r][c] = from != nullptr ? at(from + c % kParts * kLanes) : Lanes{};
      }
  }
  template <class Place>
  OSPREY_INLINE void store(const Place& place) const {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int c = 0; c < kWidth; ++c) at(place(r, c / kParts) + c % kParts * kLanes) = sums[r][c];
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
      for (int c = 0; c < kWidth; ++c) factors[c] = at(of_columns + c / kParts * b_panel + c % kParts * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const float factor = rows.at(pointers, r, step);
#pragma GCC unroll 4
        for (int c = 0; c < kWidth; ++c) sums[r][c] += factor * factors[c];
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
        pointers[k] += 2 * Rows::kStep;
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
OSPREY_INLINE void add_windows(const float* a, int64_t a_panel, int64_t a_panels, const float* b, int64_t b_line,
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
          Tile<kLanes, kPanels> tile;
          tile.load(place);
          for (int64_t line = 0; line < window.lines; ++line)
            tile.add(PanelRows{a + i * a_panel + line * window.length * kPanelRows}, seen + line * b_line, b_panel,
                     window.length, [] {});
          tile.store(place);
        }
      });
}

/// Fetches what a tile is going to add to, or to write: some lines of the cache in each of its rows.
template <int kPanels>
OSPREY_INLINE void fetch_tile(const float* first, int64_t row_step, int64_t panel_step) {
  for (int r = 0; r < kPanelRows; ++r)
    for (int panel = 0; panel < kPanels; ++panel) __builtin_prefetch(first + r * row_step + panel * panel_step, 1, 3);
}

template <int kLanes>
OSPREY_INLINE void add_to_tiles(const float* a, int64_t a_panels, const float* b, int64_t b_panels, int64_t length,
                                const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles) {
  constexpr int64_t kTile = kPanelRows * kPanelColumns;
  const int64_t a_panel = length * kPanelRows, b_panel = length * kPanelColumns, column = a_panels * kTile;
  const int64_t steps = tiles_of<kLanes>(a_panels, b_panels) * length;
  Fetch fetch(ahead, steps, a), fetch_more(more, steps, a);
  for_tiles<kLanes>(
      a_panels, b_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        float* const first = tiles + j * column + i * kTile;
        fetch_tile<kPanels>(first + kTile, kPanelColumns, column);
        const auto place = [&](int row, int panel) __attribute__((always_inline)) {
          return first + panel * column + row * kPanelColumns;
        };
        Tile<kLanes, kPanels> tile;
        tile.load([&](int row, int panel)
                      __attribute__((always_inline)) { return goes_on ? place(row, panel) : nullptr; });
        tile.add(
            PanelRows{a + i * a_panel}, b + j * b_panel, b_panel, length, [&]() __attribute__((always_inline)) {
              fetch.step();
              fetch_more.step();
            });
        tile.store(place);
      });
}

template <int kLanes>
OSPREY_INLINE void multiply_by_panels(const float* rows, int64_t count, int64_t depth, const float* panels,
                                      const float* start, int64_t columns, const Ahead& ahead, float* result) {
  constexpr int kMost = most_panels(kLanes);
  constexpr int64_t kStays = 128 << 10;  // floats of a matrix that may be expected to stay in the core's own cache
  const int64_t row_panels = (count + kPanelRows - 1) / kPanelRows,
                column_panels = (columns + kPanelColumns - 1) / kPanelColumns, panel = depth * kPanelColumns;
  // While some columns of a large matrix pass by, the next ones are fetched, and only in the end what comes after it.
  const bool large = columns * depth > kStays;
  const auto fetch_with = [&](int64_t j) __attribute__((always_inline)) {
    const bool next = large && j + kMost < column_panels;
    return Fetch(next ? Ahead{panels + (j + kMost) * panel, kMost * panel} : ahead,
                 (large ? row_panels : tiles_of<kLanes>(row_panels, column_panels)) * depth, rows);
  };
  Fetch fetch = fetch_with(0);
  for_tiles<kLanes>(
      row_panels, column_panels, [&]<int kPanels>(int64_t i, int64_t j) __attribute__((always_inline)) {
        if (large && i == 0) fetch = fetch_with(j);
        const auto row_of = [&](int64_t p) __attribute__((always_inline)) {
          return std::min(p * kPanelRows, count - kPanelRows);  // the last ones again rather than fewer
        };
        const int64_t row = row_of(i), column = j * kPanelColumns;
        Tile<kLanes, kPanels> tile;
        tile.load([&](int, int p) __attribute__((always_inline)) {
          return start != nullptr ? start + column + p * kPanelColumns : nullptr;
        });
        float* const to = result + column;
        fetch_tile<kPanels>(to + row_of(i + 1) * columns, columns, kPanelColumns);
        tile.add(
            PlainRows{rows + row * depth, depth}, panels + j * panel, panel,
            depth, [&]() __attribute__((always_inline)) { fetch.step(); });
        if (column + kPanels * kPanelColumns <= columns) {
          tile.store([&](int r, int p)
                         __attribute__((always_inline)) { return to + (row + r) * columns + p * kPanelColumns; });
          return;
        }
        constexpr int64_t kWhole = kPanels * kPanelColumns;
        float whole[kPanelRows * kWhole];
        tile.store([&](int r, int p) __attribute__((always_inline)) { return whole + r * kWhole + p * kPanelColumns; });
        for (int64_t r = 0; r < kPanelRows; ++r)
          for (int64_t c = 0; c < columns - column; ++c) to[(row + r) * columns + c] = whole[r * kWhole + c];
      });
}

OSPREY_INLINE void transpose_into(const float* rows, int64_t count, int64_t depth, float* panel) {
  for (int64_t i = 0; i < depth; ++i)
    for (int64_t r = 0; r < kPanelColumns; ++r) panel[i * kPanelColumns + r] = r < count ? rows[r * depth + i] : 0;
}

template <int kWidth>
OSPREY_INLINE void pack_of_width(const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* panels,
                                 int64_t panel_step) {
  constexpr int kLanes = 8, kMoved = (kWidth + kLanes - 1) / kLanes * kLanes;  // what is too much is overwritten later
  using Moved = Tile<kLanes, 1>;
  for (int64_t c = 0; c < channels; c += kWidth, panels += panel_step) {
    const float* from = map + c;
    float* to = panels;
    if (c + kMoved <= channels) {
      for (int64_t p = 0; p < pixels; ++p, from += map_step, to += kWidth)
        for (int i = 0; i < kMoved; i += kLanes) Moved::at(to + i) = Moved::at(from + i);
    } else {
      for (int64_t p = 0; p < pixels; ++p, from += map_step, to += kWidth)
        for (int i = 0; i < kWidth; ++i) to[i] = c + i < channels ? from[i] : 0;
    }
  }
}

OSPREY_INLINE void pack(const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width,
                        float* panels, int64_t panel_step) {
  if (width == kPanelRows) pack_of_width<kPanelRows>(map, map_step, pixels, channels, panels, panel_step);
  if (width == kPanelColumns) pack_of_width<kPanelColumns>(map, map_step, pixels, channels, panels, panel_step);
}

}  // namespace

OSPREY_DISPATCH(pack_panels, pack,
                (const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width, float* panels,
                 int64_t panel_step),
                map, map_step, pixels, channels, width, panels, panel_step)

OSPREY_DISPATCH(pack_across, transpose_into, (const float* rows, int64_t count, int64_t depth, float* panel), rows,
                count, depth, panel)

OSPREY_DISPATCH_LANES(multiply_rows, multiply_by_panels,
                      (const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                       int64_t columns, const Ahead& ahead, float* result),
                      rows, count, depth, panels, start, columns, ahead, result)

OSPREY_DISPATCH_LANES(add_window_products, add_windows,
                      (const float* a, int64_t a_panel, int64_t a_panels, const float* b, int64_t b_line,
                       int64_t b_panel, int64_t b_panels, const PlaceWindow& window, float* sums, int64_t sums_row,
                       int64_t sums_tap),
                      a, a_panel, a_panels, b, b_line, b_panel, b_panels, window, sums, sums_row, sums_tap)

OSPREY_DISPATCH_LANES(add_tiles, add_to_tiles,
                      (const float* a, int64_t a_panels, const float* b, int64_t b_panels, int64_t length,
                       const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles),
                      a, a_panels, b, b_panels, length, ahead, more, goes_on, tiles)

}  // namespace osprey::kernels::cpu
