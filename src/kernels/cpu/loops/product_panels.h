#pragma once
#include <cstdint>

/// Matrix products that sum over places: plain pointers, compiled for several instruction sets of which the best that
/// the machine has is taken.
namespace osprey::kernels::cpu {

constexpr int64_t kPanelRows = 6, kPanelColumns = 16;  ///< channels of a panel: one tile of sums fills the registers

/// Channels of pixels of a map as panels, [channels / width, pixels, width]; missing ones become zero.
/// map         the first of these channels of the first pixel
/// map_step    floats from one pixel to the next
/// panel_step  floats from one panel to the next
void pack_panels(const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width, float* panels,
                 int64_t panel_step);

/// sums[r][c] += sum over places of a[place][r] * b[place][c].
/// a       [lines, length, kPanelRows]
/// b       [.., kPanelColumns] lines of such places, b_step floats apart
/// sums    [kPanelRows, ..] rows sums_step floats apart
void add_panel_products(const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length, float* sums,
                        int64_t sums_step);

}  // namespace osprey::kernels::cpu
