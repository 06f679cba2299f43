#pragma once
#include <cstdint>

/// Matrix products by tiles of sums that stay in registers: plain pointers, compiled for several instruction sets of
/// which the best that the machine has is taken.
namespace osprey::kernels::cpu {

constexpr int64_t kPanelRows = 6, kPanelColumns = 16;  ///< a tile

/// Channels of pixels of a map as panels, [channels / width, pixels, width]; missing ones become zero.
/// map         the first of these channels of the first pixel
/// map_step    floats from one pixel to the next
/// panel_step  floats from one panel to the next
void pack_panels(const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width, float* panels,
                 int64_t panel_step);

/// Rows side by side as the columns of one panel, [depth, kPanelColumns]; missing ones become zero.
/// rows   [count, depth], count at most kPanelColumns
void pack_across(const float* rows, int64_t count, int64_t depth, float* panel);

/// result[r][c] = start[c] + sum over i of rows[r][i] * panels[c / kPanelColumns][i][c % kPanelColumns].
/// rows    [count, depth], row_step floats apart; at least kPanelRows of them
/// panels  [panel_count, depth, kPanelColumns]
/// start   [panel_count * kPanelColumns], or null: zeros
/// result  [count, columns], that far apart; columns at most panel_count * kPanelColumns
/// As many rows after these are fetched into the cache meanwhile, for the next call.
void multiply_rows(const float* rows, int64_t row_step, int64_t count, int64_t depth, const float* panels,
                   const float* start, int64_t columns, float* result);

/// sums[r][c] += sum over places of a[place][r] * b[place][c].
/// a       [lines, length, kPanelRows]
/// b       [.., kPanelColumns] lines of such places, b_step floats apart
/// sums    [kPanelRows, ..] rows sums_step floats apart
void add_panel_products(const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length, float* sums,
                        int64_t sums_step);

}  // namespace osprey::kernels::cpu
