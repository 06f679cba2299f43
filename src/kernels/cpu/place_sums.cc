#include "kernels/cpu/place_sums.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/device/kernel.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Columns that a thread multiplies with all rows: those of four panels, the widest tile of AVX-512, as more would
/// leave threads with nothing to do; by AMX, of as many as stay in the core's own cache as all rows pass by.
int64_t columns_of_a_task(Arithmetic arithmetic) { return (arithmetic == Arithmetic::kAmx ? 8 : 4) * kPanelColumns; }

}  // namespace

int64_t PlaceSums::groups_for(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic) {
  constexpr int64_t kBytes = 8 << 20, kThreads = 8, kMost = 64, kPlaces = 96;  // of a group, about
  // As many as threads need; but of pairs all places take half the memory, and the sooner that is less than what the
  // sums of all groups take.
  const bool of_half_the_size =
      arithmetic == Arithmetic::kPairs && device::blocks_for(I, columns_of_a_task(arithmetic)) >= kThreads;
  const int64_t fit = kBytes / (O * I * static_cast<int64_t>(sizeof(float)));
  return fit < (of_half_the_size ? 2 * kThreads : kThreads) ? 0
                                                            : std::min({(places + kPlaces - 1) / kPlaces, fit, kMost});
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
  auto* const to = result.mutable_data_ptr<float>();
  constexpr int64_t kAtATime = 16;  // tiles
  const int64_t of_a_panel = sums.size(2), count = sums.size(1) * of_a_panel, size = sums.stride(2);
  parallel_for(device::blocks_for(count, kAtATime), [&](int64_t task) {
    for (int64_t i = task * kAtATime; i < std::min((task + 1) * kAtATime, count); ++i) {
      float* const tile = of_groups + i * size;
      for (int64_t group = 1; group < groups_; ++group) add_floats(tile + group * sums.stride(0), size, tile);
      unpack(tile, i / of_a_panel, i % of_a_panel, to);
    }
  });
  return result;
}

struct PlaceSums::Part {
  int64_t begin;  ///< the first of their places
  PackedPlaces places;
  Scratch<> rows, panels;
};

std::vector<PlaceSums::Part> PlaceSums::packed(int64_t first, int64_t count, const Pack& pack) const {
  constexpr int64_t kAmxPart = 1024;  // places of which columns stay in the core's own cache as all rows pass by
  const int64_t of_a_part =
      arithmetic_ == Arithmetic::kAmx ? std::max<int64_t>(kAmxPart / tasks_.most(), 1) : tasks_.count();
  std::vector<Part> parts;
  for (int64_t task = 0; task < count; task += of_a_part) {
    const int64_t last = std::min(task + of_a_part, count) - 1, begin = tasks_.places(first + task).first;
    const PackedPlaces places(arithmetic_, tasks_.places(first + last).second - begin);
    parts.push_back({begin, places, scratch(places.rows_size(rows_)), scratch(places.columns_size(columns_))});
  }
  parallel_for(count, [&](int64_t task) {
    const Part& part = parts[static_cast<size_t>(task / of_a_part)];
    const auto [begin, end] = tasks_.places(first + task);
    pack(first + task, begin, end,
         PlacePiece{part.places, rows_, columns_, begin - part.begin, end - part.begin, part.rows.get(),
                    part.panels.get()});
  });
  return parts;
}

void PlaceSums::add(const std::vector<Part>& parts, int64_t first, int64_t own, bool goes_on, float* tiles) const {
  for (const Part& part : parts) {
    float* const panels = part.panels.get() + part.places.columns_size(first);
    part.places.finish_columns(own, panels);
    part.places.add(part.rows.get(), rows_, panels, device::blocks_for(own, kPanelColumns), {}, {},
                    goes_on || &part != &parts.front(), tiles);
  }
}

at::Tensor PlaceSums::by_columns(const Pack& pack) const {
  const int64_t channels = columns_of_a_task(arithmetic_);
  // What is packed at a time, about so many bytes, should still be in a cache that threads share when it is multiplied;
  // but each time there have to be tasks for all threads.
  constexpr int64_t kBytes = 8 << 20;
  const PackedPlaces all(arithmetic_, tasks_.places(tasks_.count() - 1).second);
  const int64_t bytes = (all.rows_size(rows_) + all.columns_size(columns_)) * static_cast<int64_t>(sizeof(float));
  const int64_t shares = std::max<int64_t>(tasks_.count() / PlaceTasks::kShares, 1),
                rounds = std::clamp<int64_t>(bytes / kBytes, 1, shares);
  const auto first_task = [&](int64_t round) {
    return round == rounds ? tasks_.count() : round * shares / rounds * PlaceTasks::kShares;
  };
  const at::Tensor sums = tiles(1), result = at::empty({rows_, columns_, 1, 1}, sums.options());
  auto *const of_panels = sums.mutable_data_ptr<float>(), *const to = result.mutable_data_ptr<float>();
  for (int64_t round = 0; round < rounds; ++round) {
    const std::vector<Part> parts = packed(first_task(round), first_task(round + 1) - first_task(round), pack);
    if (PackedPlaces::finishes_rows(arithmetic_))
      parallel_for(device::blocks_for(rows_, channels), [&](int64_t task) {
        const int64_t first = task * channels;
        for (const Part& part : parts)
          part.places.finish_rows(rows_, first, std::min(channels, rows_ - first), part.rows.get());
      });
    parallel_for(device::blocks_for(columns_, channels), [&](int64_t task) {
      const int64_t first = task * channels, own = std::min(channels, columns_ - first), panel = first / kPanelColumns;
      float* const own_tiles = of_panels + panel * sums.stride(1);
      add(parts, first, own, /*goes_on=*/round > 0, own_tiles);
      if (round + 1 < rounds) return;
      for (int64_t i = 0; i < device::blocks_for(own, kPanelColumns) * sums.size(2); ++i)
        unpack(own_tiles + i * sums.stride(2), panel + i / sums.size(2), i % sums.size(2), to);
    });
  }
  return result;
}

void PlaceSums::unpack(const float* tile, int64_t panel, int64_t row_panel, float* result) const {
  const int64_t most = PackedPlaces::panel_rows(arithmetic_), row = row_panel * most;
  unpack_panel(tile, std::min(most, rows_ - row), panel * kPanelColumns, columns_, result + row * columns_, columns_);
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
