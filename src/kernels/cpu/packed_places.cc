#include "kernels/cpu/packed_places.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/loops/amx_products.h"
#include "kernels/cpu/loops/inner_products.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::cpu {
namespace {

/// Fails for numbers that are packed as pairs only.
template <class T>
void pack_floats(const T* map, int64_t map_step, int64_t pixels, int64_t channels, float* to, int64_t to_step,
                 int64_t panel_step) {
  if constexpr (std::is_same_v<T, float>) return pack_panels(map, map_step, pixels, channels, to, to_step, panel_step);
  TORCH_INTERNAL_ASSERT(false, "bfloat16 numbers are not multiplied as floats");
}

}  // namespace

PackedPlaces::PackedPlaces(Arithmetic arithmetic, int64_t count)
    : arithmetic_(arithmetic),
      count_(count),
      steps_(arithmetic == Arithmetic::kAmx             ? device::blocks_for(count, kAmxPlaces) * kAmxPlaces / 2
             : arithmetic == Arithmetic::kInnerProducts ? inner_steps(count)
                                                        : steps_of(count, arithmetic == Arithmetic::kPairs)) {}

int64_t PackedPlaces::lines() const { return arithmetic_ == Arithmetic::kInnerProducts ? steps_ + kInnerEnds : steps_; }

int64_t PackedPlaces::panel_rows(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kAmx ? kTileSide : kPanelRows;
}

int64_t PackedPlaces::row_panels(Arithmetic arithmetic, int64_t channels) {
  return device::blocks_for(channels, panel_rows(arithmetic));
}

int64_t PackedPlaces::row_step(int64_t channels) const {
  // An odd number of lines of the cache, see row_step_for.
  return arithmetic_ == Arithmetic::kAmx ? (steps_ / kTileSide | 1) * kTileSide : row_step_for(channels);
}

int64_t PackedPlaces::rows_size(int64_t channels) const {
  const bool by_channel = arithmetic_ == Arithmetic::kAmx;
  return (by_channel ? row_panels(arithmetic_, channels) * kTileSide : lines()) * row_step(channels);
}

int64_t PackedPlaces::columns_size(int64_t channels) const {
  return device::blocks_for(channels, kPanelColumns) * panel_size();
}

template <class T>
void PackedPlaces::pack_rows(const T* from, int64_t channels, int64_t begin, int64_t end, float* rows) const {
  const int64_t step = row_step(channels), own = end - begin;
  if (arithmetic_ == Arithmetic::kAmx)
    return turn_for_amx(from, channels, own, channels, reinterpret_cast<Bfloat16*>(rows) + begin, 2 * step);
  float* const to = rows + steps_of(begin, rounds(arithmetic_)) * step;
  if (arithmetic_ == Arithmetic::kPairs) return pack_pairs(from, channels, own, channels, to, step, kPanelColumns);
  pack_floats(from, channels, own, channels, to, step, kPanelColumns);
}

template <class T>
void PackedPlaces::pack_columns(const T* from, int64_t channels, int64_t begin, int64_t end, float* panels) const {
  float* const to = columns_from(begin, panels);
  if (rounds(arithmetic_)) return pack_pairs(from, channels, end - begin, channels, to, kPanelColumns, panel_size());
  pack_floats(from, channels, end - begin, channels, to, kPanelColumns, panel_size());
}
template void PackedPlaces::pack_rows(const float*, int64_t, int64_t, int64_t, float*) const;
template void PackedPlaces::pack_rows(const Bfloat16*, int64_t, int64_t, int64_t, float*) const;
template void PackedPlaces::pack_columns(const float*, int64_t, int64_t, int64_t, float*) const;
template void PackedPlaces::pack_columns(const Bfloat16*, int64_t, int64_t, int64_t, float*) const;

void PackedPlaces::finish_rows(int64_t channels, int64_t first, int64_t own, float* rows) const {
  if (finishes_rows(arithmetic_)) balance_columns(rows + first, row_step(channels), count_, own);
}

void PackedPlaces::finish_columns(int64_t channels, float* panels) const {
  const int64_t filled = steps_of(count_, rounds(arithmetic_)) * kPanelColumns;
  for (int64_t i = 0; i < device::blocks_for(channels, kPanelColumns); ++i, panels += panel_size()) {
    if (arithmetic_ == Arithmetic::kInnerProducts) balance_columns(panels, kPanelColumns, count_, kPanelColumns);
    if (arithmetic_ == Arithmetic::kAmx) std::fill(panels + filled, panels + panel_size(), 0.0f);
  }
}

void PackedPlaces::add(const float* rows, int64_t channels, const float* panels, int64_t panel_count,
                       const Ahead& ahead, const Ahead& more, bool goes_on, float* sums) const {
  const int64_t step = row_step(channels), own_panels = row_panels(arithmetic_, channels);
  if (arithmetic_ == Arithmetic::kInnerProducts)
    return add_inner_products(rows, step, own_panels, panels, panel_count, count_, ahead, more, goes_on, sums);
  if (arithmetic_ != Arithmetic::kAmx)
    return (arithmetic_ == Arithmetic::kPairs ? add_tiles_of_pairs : add_tiles)(
        rows, step, own_panels, panels, panel_count, steps_, ahead, more, goes_on, sums);
  constexpr AmxTap kOneTap{0, 0};
  add_sums_by_amx({.a = reinterpret_cast<const Bfloat16*>(rows),
                   .a_step = 2 * step,
                   .a_panels = own_panels,
                   .b = panels,
                   .b_step = steps_ * kPanelColumns,
                   .b_panels = panel_count,
                   .places = 2 * steps_,
                   .taps = &kOneTap,
                   .tap_count = 1},
                  ahead, more, goes_on, sums, own_panels * kTileSide * kPanelColumns);
}

}  // namespace osprey::kernels::cpu
