#include "kernels/cpu/place_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/amx_products.h"
#include "kernels/cpu/loops/inner_products.h"
#include "kernels/cpu/place_tasks.h"
#include "kernels/device/kernel.h"
#include "osprey/kernels/parallel.h"

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
void PackedPlaces::pack_rows(const T* from, int64_t channels, int64_t first, int64_t own, float* rows) const {
  const int64_t step = row_step(channels);
  if (!rounds(arithmetic_)) {
    pack_floats(from + first, channels, count_, own, rows + first, step, kPanelColumns);
    if (arithmetic_ == Arithmetic::kInnerProducts) balance_columns(rows + first, step, count_, own);
    return;
  }
  if (arithmetic_ == Arithmetic::kPairs)
    return pack_pairs(from + first, channels, count_, own, rows + first, step, kPanelColumns);
  turn_for_amx(from + first, channels, count_, own, reinterpret_cast<Bfloat16*>(rows + first * step), 2 * step);
}

template <class T>
void PackedPlaces::pack_columns(const T* from, int64_t channels, int64_t first, int64_t own, float* panels) const {
  const int64_t panel = panel_size();
  float* const to = panels + first / kPanelColumns * panel;
  if (!rounds(arithmetic_)) {
    pack_floats(from + first, channels, count_, own, to, kPanelColumns, panel);
    return finish_columns(own, to);
  }
  pack_pairs(from + first, channels, count_, own, to, kPanelColumns, panel);
  for (int64_t i = 0; i < device::blocks_for(own, kPanelColumns); ++i)
    std::fill(to + i * panel + steps_of(count_, true) * kPanelColumns, to + (i + 1) * panel, 0.0f);
}
template void PackedPlaces::pack_rows(const float*, int64_t, int64_t, int64_t, float*) const;
template void PackedPlaces::pack_rows(const Bfloat16*, int64_t, int64_t, int64_t, float*) const;
template void PackedPlaces::pack_columns(const float*, int64_t, int64_t, int64_t, float*) const;
template void PackedPlaces::pack_columns(const Bfloat16*, int64_t, int64_t, int64_t, float*) const;

void PackedPlaces::finish_columns(int64_t channels, float* panels) const {
  if (arithmetic_ != Arithmetic::kInnerProducts) return;
  for (int64_t i = 0; i < device::blocks_for(channels, kPanelColumns); ++i)
    balance_columns(panels + i * panel_size(), kPanelColumns, count_, kPanelColumns);
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

int64_t PlaceSums::groups_for(int64_t O, int64_t I, int64_t places) {
  constexpr int64_t kBytes = 8 << 20, kLeast = 8, kMost = 64, kPlaces = 96;  // of a group, at least
  const int64_t fit = kBytes / (O * I * static_cast<int64_t>(sizeof(float)));
  return fit < kLeast ? 0 : std::min({(places + kPlaces - 1) / kPlaces, fit, kMost});
}

PlaceSums::PlaceSums(int64_t O, int64_t I, int64_t groups, Arithmetic arithmetic)
    : rows_(O),
      columns_(I),
      groups_(groups),
      arithmetic_(arithmetic_of_matrix(arithmetic, O, I)),
      tiles_(at::empty({groups, device::blocks_for(I, kPanelColumns), PackedPlaces::row_panels(arithmetic, O),
                        PackedPlaces::panel_rows(arithmetic), kPanelColumns},
                       at::kFloat)) {}

void PlaceSums::add(int64_t group, bool first, const float* a, const float* b, int64_t count, const Ahead& ahead,
                    const Ahead& more) {
  PackedPlaces(arithmetic_, count)
      .add(a, rows_, b, tiles_.size(1), ahead, more, /*goes_on=*/!first,
           tiles_.mutable_data_ptr<float>() + group * tiles_.stride(0));
}

template <class T>
void PlaceSums::pack_rows(const T* a, int64_t count, float* rows) const {
  PackedPlaces(arithmetic_, count).pack_rows(a, rows_, 0, rows_, rows);
}
template <class T>
void PlaceSums::pack_columns(const T* b, int64_t count, float* panels) const {
  PackedPlaces(arithmetic_, count).pack_columns(b, columns_, 0, columns_, panels);
}
template void PlaceSums::pack_rows(const float*, int64_t, float*) const;
template void PlaceSums::pack_rows(const Bfloat16*, int64_t, float*) const;
template void PlaceSums::pack_columns(const float*, int64_t, float*) const;
template void PlaceSums::pack_columns(const Bfloat16*, int64_t, float*) const;

int64_t PlaceSums::rows_size(int64_t count) const { return PackedPlaces(arithmetic_, count).rows_size(rows_); }
int64_t PlaceSums::columns_size(int64_t count) const { return PackedPlaces(arithmetic_, count).columns_size(columns_); }

at::Tensor PlaceSums::total() {
  const at::Tensor result = at::empty({rows_, columns_, 1, 1}, tiles_.options());
  auto *const tiles = tiles_.mutable_data_ptr<float>(), *const out = result.mutable_data_ptr<float>();
  const int64_t size = tiles_.stride(2);
  parallel_for(tiles_.size(2) * tiles_.size(1), [&](int64_t task) {
    const int64_t row_panel = task / tiles_.size(1), panel = task % tiles_.size(1), row = row_panel * tiles_.size(3);
    float* const sums = tiles + panel * tiles_.stride(1) + row_panel * size;  // those of the first group
    for (int64_t group = 1; group < groups_; ++group) add_floats(sums + group * tiles_.stride(0), size, sums);
    unpack_panel(sums, std::min(tiles_.size(3), rows_ - row), panel * kPanelColumns, columns_, out + row * columns_,
                 columns_);
  });
  return result;
}

template <class T>
at::Tensor sum_products(const T* a, int64_t O, const T* b, int64_t I, int64_t count, Arithmetic given) {
  const Arithmetic arithmetic = arithmetic_of_matrix(given, O, I);
  // What a task multiplies with all rows: panels, as many as the widest tile has, as more would leave threads without a
  // task; or what stays in the core's own cache as all rows pass by.
  const bool by_amx = arithmetic == Arithmetic::kAmx;
  const int64_t at_a_time = by_amx ? 8 : 4, channels = at_a_time * kPanelColumns, most = by_amx ? 1024 : count;
  const int64_t column_panels = device::blocks_for(I, kPanelColumns),
                panel = PackedPlaces::row_panels(arithmetic, O) * PackedPlaces::panel_rows(arithmetic) * kPanelColumns;
  const auto sums = scratch(column_panels * panel);
  const PackedPlaces largest(arithmetic, std::min(most, count));
  const auto rows = scratch(largest.rows_size(O)), columns = scratch(largest.columns_size(I));
  for (int64_t begin = 0; begin < count; begin += most) {
    const PackedPlaces places(arithmetic, std::min(most, count - begin));
    parallel_for(device::blocks_for(O, channels), [&](int64_t task) {
      const int64_t first = task * channels;
      places.pack_rows(a + begin * O, O, first, std::min(channels, O - first), rows.get());
    });
    parallel_for(device::blocks_for(I, channels), [&](int64_t task) {
      const int64_t first = task * channels, own = std::min(channels, I - first);
      places.pack_columns(b + begin * I, I, first, own, columns.get());
      places.add(rows.get(), O, columns.get() + places.columns_size(first), device::blocks_for(own, kPanelColumns), {},
                 {}, /*goes_on=*/begin > 0, sums.get() + first / kPanelColumns * panel);
    });
  }
  const at::Tensor result = at::empty({O, I, 1, 1}, at::kFloat);
  auto* const out = result.mutable_data_ptr<float>();
  const int64_t most_rows = PackedPlaces::panel_rows(arithmetic);
  parallel_for(PackedPlaces::row_panels(arithmetic, O), [&](int64_t row_panel) {
    const int64_t row = row_panel * most_rows;
    for (int64_t i = 0; i < column_panels; ++i)
      unpack_panel(sums.get() + i * panel + row * kPanelColumns, std::min(most_rows, O - row), i * kPanelColumns, I,
                   out + row * I, I);
  });
  return result;
}

template at::Tensor sum_products(const float*, int64_t, const float*, int64_t, int64_t, Arithmetic);
template at::Tensor sum_products(const Bfloat16*, int64_t, const Bfloat16*, int64_t, int64_t, Arithmetic);

template <class T>
at::Tensor sum_over_places(const T* a, int64_t O, const T* b, int64_t I, int64_t count, Arithmetic arithmetic) {
  const int64_t groups = PlaceSums::groups_for(O, I, count);
  if (groups == 0) return sum_products(a, O, b, I, count, arithmetic);
  PlaceSums sums(O, I, groups, arithmetic);
  const PlaceTasks tasks(arithmetic, count, std::max(O, I), groups, O * I);
  parallel_for(groups, [&](int64_t group) {
    const int64_t most = tasks.most(), first = group * tasks.count() / groups;
    const auto rows = scratch(sums.rows_size(most)), columns = scratch(sums.columns_size(most));
    for (int64_t task = first; task < (group + 1) * tasks.count() / groups; ++task) {
      const auto [begin, end] = tasks.places(task);
      sums.pack_rows(a + begin * O, end - begin, rows.get());
      sums.pack_columns(b + begin * I, end - begin, columns.get());
      sums.add(group, task == first, rows.get(), columns.get(), end - begin, Ahead::of(a + end * O, (end - begin) * O),
               Ahead::of(b + end * I, (end - begin) * I));
    }
  });
  return sums.total();
}
template at::Tensor sum_over_places(const float*, int64_t, const float*, int64_t, int64_t, Arithmetic);
template at::Tensor sum_over_places(const Bfloat16*, int64_t, const Bfloat16*, int64_t, int64_t, Arithmetic);

}  // namespace osprey::kernels::cpu
