#include "kernels/cpu/place_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/amx_products.h"
#include "kernels/cpu/loops/inner_products.h"
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

/// What some successive tasks have packed.
struct PackedPart {
  int64_t begin;  ///< the first of their places
  PackedPlaces places;
  Scratch<> rows, panels;
};

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

int64_t PlaceSums::groups_for(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic) {
  constexpr int64_t kBytes = 8 << 20, kMost = 64, kPlaces = 96;  // of a group, at least
  // As many as threads need; of pairs all places take half the memory, and the sooner that is less than what the sums
  // of all groups take.
  const int64_t least = arithmetic == Arithmetic::kPairs ? 16 : 8;
  const int64_t fit = kBytes / (O * I * static_cast<int64_t>(sizeof(float)));
  return fit < least ? 0 : std::min({(places + kPlaces - 1) / kPlaces, fit, kMost});
}

PlaceSums::PlaceSums(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic)
    : rows_(O),
      columns_(I),
      arithmetic_(arithmetic_of_matrix(arithmetic, O, I)),
      groups_(groups_for(O, I, places, arithmetic)),
      tasks_(arithmetic, places, std::max(O, I), groups_ > 0 ? groups_ : PlaceTasks::kShares, O * I) {}

at::Tensor PlaceSums::of(const Pack& pack) const { return groups_ > 0 ? by_groups(pack) : by_columns(pack); }

at::Tensor PlaceSums::tiles(int64_t groups) const {
  return at::empty({groups, device::blocks_for(columns_, kPanelColumns), PackedPlaces::row_panels(arithmetic_, rows_),
                    PackedPlaces::panel_rows(arithmetic_), kPanelColumns},
                   at::kFloat);
}

at::Tensor PlaceSums::by_groups(const Pack& pack) const {
  const at::Tensor sums = tiles(groups_);
  auto* const of_groups = sums.mutable_data_ptr<float>();
  const PackedPlaces largest(arithmetic_, tasks_.most());
  parallel_for(groups_, [&](int64_t group) {
    const auto rows = scratch(largest.rows_size(rows_)), panels = scratch(largest.columns_size(columns_));
    const int64_t first = group * tasks_.count() / groups_;
    for (int64_t task = first; task < (group + 1) * tasks_.count() / groups_; ++task) {
      const auto [begin, end] = tasks_.places(task);
      const PackedPlaces places(arithmetic_, end - begin);
      const Next next =
          pack(task, begin, end, PlacePiece{places, rows_, columns_, 0, end - begin, rows.get(), panels.get()});
      places.finish_rows(rows_, 0, rows_, rows.get());
      places.finish_columns(columns_, panels.get());
      places.add(rows.get(), rows_, panels.get(), sums.size(1), next.first, next.second, /*goes_on=*/task > first,
                 of_groups + group * sums.stride(0));
    }
  });
  const at::Tensor result = at::empty({rows_, columns_, 1, 1}, sums.options());
  constexpr int64_t kAtATime = 16;  // tiles
  const int64_t of_a_panel = sums.size(2), count = sums.size(1) * of_a_panel, size = sums.stride(2);
  parallel_for(device::blocks_for(count, kAtATime), [&](int64_t task) {
    for (int64_t i = task * kAtATime; i < std::min((task + 1) * kAtATime, count); ++i) {
      float* const tile = of_groups + i * size;
      for (int64_t group = 1; group < groups_; ++group) add_floats(tile + group * sums.stride(0), size, tile);
      unpack(tile, i / of_a_panel, i % of_a_panel, result);
    }
  });
  return result;
}

at::Tensor PlaceSums::by_columns(const Pack& pack) const {
  const bool by_amx = arithmetic_ == Arithmetic::kAmx;
  // What a thread multiplies with all rows: panels, as many as the widest tile has, as more would leave threads with
  // nothing to do; or what stays in the core's own cache as all rows pass by, of some places at a time.
  const int64_t channels = (by_amx ? 8 : 4) * kPanelColumns,
                of_a_part = by_amx ? std::max<int64_t>(1024 / tasks_.most(), 1) : tasks_.count();
  // What is packed at a time should still be in a cache that threads share when it is multiplied.
  constexpr int64_t kBytes = 8 << 20;
  const PackedPlaces all(arithmetic_, tasks_.places(tasks_.count() - 1).second);
  const int64_t floats = all.rows_size(rows_) + all.columns_size(columns_),
                rounds = std::clamp<int64_t>(floats * static_cast<int64_t>(sizeof(float)) / kBytes, 1,
                                             std::max<int64_t>(tasks_.count() / PlaceTasks::kShares, 1));
  const at::Tensor sums = tiles(1), result = at::empty({rows_, columns_, 1, 1}, sums.options());
  auto* const of_panels = sums.mutable_data_ptr<float>();
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t first = round * tasks_.count() / rounds, count = (round + 1) * tasks_.count() / rounds - first;
    std::vector<PackedPart> parts;
    for (int64_t task = 0; task < count; task += of_a_part) {
      const int64_t last = std::min(task + of_a_part, count) - 1, begin = tasks_.places(first + task).first;
      const PackedPlaces places(arithmetic_, tasks_.places(first + last).second - begin);
      parts.push_back({begin, places, scratch(places.rows_size(rows_)), scratch(places.columns_size(columns_))});
    }
    parallel_for(count, [&](int64_t task) {
      const PackedPart& part = parts[static_cast<size_t>(task / of_a_part)];
      const auto [begin, end] = tasks_.places(first + task);
      pack(first + task, begin, end,
           PlacePiece{part.places, rows_, columns_, begin - part.begin, end - part.begin, part.rows.get(),
                      part.panels.get()});
    });
    if (PackedPlaces::finishes_rows(arithmetic_))
      parallel_for(device::blocks_for(rows_, channels), [&](int64_t task) {
        const int64_t from = task * channels;
        for (const PackedPart& part : parts)
          part.places.finish_rows(rows_, from, std::min(channels, rows_ - from), part.rows.get());
      });
    parallel_for(device::blocks_for(columns_, channels), [&](int64_t task) {
      const int64_t from = task * channels, own = std::min(channels, columns_ - from);
      for (const PackedPart& part : parts) {
        float* const panels = part.panels.get() + part.places.columns_size(from);
        part.places.finish_columns(own, panels);
        part.places.add(part.rows.get(), rows_, panels, device::blocks_for(own, kPanelColumns), {}, {},
                        /*goes_on=*/round > 0 || &part != &parts.front(),
                        of_panels + from / kPanelColumns * sums.stride(1));
      }
      if (round + 1 < rounds) return;
      for (int64_t panel = from / kPanelColumns; panel < device::blocks_for(from + own, kPanelColumns); ++panel)
        for (int64_t row_panel = 0; row_panel < sums.size(2); ++row_panel)
          unpack(of_panels + panel * sums.stride(1) + row_panel * sums.stride(2), panel, row_panel, result);
    });
  }
  return result;
}

void PlaceSums::unpack(const float* tile, int64_t panel, int64_t row_panel, const at::Tensor& result) const {
  const int64_t most = PackedPlaces::panel_rows(arithmetic_), row = row_panel * most;
  unpack_panel(tile, std::min(most, rows_ - row), panel * kPanelColumns, columns_,
               result.mutable_data_ptr<float>() + row * columns_, columns_);
}

template <class T>
at::Tensor sum_over_places(const T* a, int64_t O, const T* b, int64_t I, int64_t count, Arithmetic arithmetic) {
  return PlaceSums(O, I, count, arithmetic).of([&](int64_t, int64_t begin, int64_t end, const PlacePiece& piece) {
    piece.pack_rows(a + begin * O);
    piece.pack_columns(b + begin * I);
    return PlaceSums::Next{Ahead::of(a + end * O, (end - begin) * O), Ahead::of(b + end * I, (end - begin) * I)};
  });
}
template at::Tensor sum_over_places(const float*, int64_t, const float*, int64_t, int64_t, Arithmetic);
template at::Tensor sum_over_places(const Bfloat16*, int64_t, const Bfloat16*, int64_t, int64_t, Arithmetic);

}  // namespace osprey::kernels::cpu
