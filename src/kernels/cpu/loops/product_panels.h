#pragma once
#include <cstdint>

#include "kernels/arithmetic/number.h"

/// Matrix products by tiles of sums that stay in registers, of as many panels as these hold: plain pointers, compiled
/// for several instruction sets of which the best that the machine has is taken.
namespace osprey::kernels::cpu {

constexpr int64_t kPanelRows = 6, kPanelColumns = 16;
constexpr int64_t kLeastRows = kPanelRows;  ///< that can be multiplied

/// Rows of a matrix to be packed at a time, read as they lie: some neighbouring columns alone, of many rows, would be
/// waited for line by line. Even, so that no pair is divided.
constexpr int64_t kPackedRows = 32;

/// How many floats, or pairs of bfloat16 numbers (loops/factors.h), so many numbers are.
constexpr int64_t steps_of(int64_t count, bool in_pairs) { return in_pairs ? (count + 1) / 2 : count; }

/// Memory that is fetched into the cache while something else is computed, a little at a time.
struct Ahead {
  const float* from = nullptr;
  int64_t size = 0;  ///< floats; it may reach beyond what there is

  /// So many numbers of any kind.
  template <class T>
  static Ahead of(const T* first, int64_t count) {
    return {reinterpret_cast<const float*>(first), count * int64_t{sizeof(T)} / int64_t{sizeof(float)}};
  }
};

/// From one step of rows to the next, where there are so many: room for whole panels of them, and an odd number of
/// lines of the cache, or the numbers of a row would all fall upon the same few places of it.
constexpr int64_t row_step_for(int64_t rows) {
  return ((rows + kPanelRows - 2 + kPanelColumns) / kPanelColumns | 1) * kPanelColumns;
}

/// Channels of pixels of a map, kPanelColumns at a time; those that the last of them lack become zero. Panels of
/// columns are [channels / kPanelColumns, pixels, kPanelColumns], rows [pixels, row_step_for(channels)].
///
/// map         the first of these channels of the first pixel
/// map_step    floats from one pixel to the next
/// to_step     floats from one pixel to the next there: kPanelColumns, or row_step_for(channels)
/// panel_step  floats from some channels to the next: those of a panel, or kPanelColumns
void pack_panels(const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* to, int64_t to_step,
                 int64_t panel_step);

/// The same with a pair of bfloat16 numbers (loops/factors.h) of each two pixels; the last of an odd number is paired
/// with zero.
void pack_pairs(const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* to, int64_t to_step,
                int64_t panel_step);
void pack_pairs(const Bfloat16* map, int64_t map_step, int64_t pixels, int64_t channels, float* to, int64_t to_step,
                int64_t panel_step);

/// Rows side by side as the columns of one panel, [depth, kPanelColumns]; missing ones become zero.
/// rows  [count, depth], `row_step` floats apart; count at most kPanelColumns
void pack_across(const float* rows, int64_t row_step, int64_t count, int64_t depth, float* panel);

/// A panel of columns, [rows, kPanelColumns], or as much of it as there is, to where it belongs in a matrix.
/// first     column of the matrix that the panel begins with
/// columns   of the matrix
/// matrix    its first row of these
/// row_step  floats from one row of it to the next
void unpack_panel(const float* panel, int64_t rows, int64_t first, int64_t columns, float* matrix, int64_t row_step);

/// result[r][c] = start[c] + sum over i of rows[r][i] * panels[c / kPanelColumns][i][c % kPanelColumns].
/// rows    [count, depth]; at least kLeastRows of them
/// panels  [panel_count, depth, kPanelColumns]
/// start   [panel_count * kPanelColumns], or null: zeros
/// ahead   fetched meanwhile
/// result  [count, columns], one row after the other; columns at most panel_count * kPanelColumns
void multiply_rows(const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                   int64_t columns, const Ahead& ahead, float* result);

/// The same of pairs: `depth` of them in a row.
void multiply_rows_of_pairs(const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                            int64_t columns, const Ahead& ahead, float* result);
/// Rounded, as `round_floats` does.
void multiply_rows_of_pairs(const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                            int64_t columns, const Ahead& ahead, Bfloat16* result);

/// Lines of places, and the taps of a window that moves over them by one.
struct PlaceWindow {
  int64_t lines, length;  ///< of what the window has made
  int64_t high, wide;     ///< taps
};

/// sums[tap][r][j * kPanelColumns + c] += sum over lines and places of a[line][place][r] *
/// b[j][line + tap / wide][place + tap % wide][c].
/// a     [lines, length] of a_panels * kPanelRows rows, a_step floats apart
/// b     b_panels of lines of [.., kPanelColumns], b_panel and b_line floats apart
/// sums  taps and rows, sums_tap and sums_row floats apart
void add_window_products(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_line,
                         int64_t b_panel, int64_t b_panels, const PlaceWindow& window, float* sums, int64_t sums_row,
                         int64_t sums_tap);

/// tiles[j][i][r][c] = (what it is, or 0) + sum over places of a[place][i * kPanelRows + r] * b[j][place][c].
/// a            [length] of a_panels * kPanelRows rows, a_step floats apart; what rows have that nobody wants does not
///              matter
/// b            [b_panels, length, kPanelColumns]
/// ahead, more  fetched meanwhile
/// goes_on      false: what the tiles are does not count
/// tiles        [b_panels, a_panels, kPanelRows, kPanelColumns]
void add_tiles(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels, int64_t length,
               const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles);

/// The same of pairs: `length` of them.
void add_tiles_of_pairs(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                        int64_t length, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles);

}  // namespace osprey::kernels::cpu
