#include "kernels/cpu/place_products.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/device/kernel.h"
#include "osprey/base/cpu.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

// What a task has at a time should stay in the core's own cache, as often as its weights pass by; but the fewer places,
// the more often these and the sums of their gradients pass by, and the less there is to do for what beginning costs.
constexpr int64_t kFloatsOfATask = 24 << 10, kLeastTiles = 16, kMostTiles = 64;

template <class T>
void pack_for(bool in_pairs, const T* map, int64_t map_step, int64_t pixels, int64_t channels, float* to,
              int64_t to_step, int64_t panel_step) {
  if (in_pairs) return pack_pairs(map, map_step, pixels, channels, to, to_step, panel_step);
  if constexpr (std::is_same_v<T, float>) {
    pack_panels(map, map_step, pixels, channels, to, to_step, panel_step);
  } else {
    TORCH_INTERNAL_ASSERT(false, "bfloat16 numbers are multiplied in pairs");
  }
}

/// Rows of which the numbers come in pairs: the last of an odd number is paired with zero.
template <class T>
void pair_neighbours(const T* rows, int64_t count, int64_t depth, Bfloat16* result) {
  for (int64_t row = 0; row < count; ++row, rows += depth) {
    if constexpr (std::is_same_v<T, float>) {
      round_floats(rows, depth, result);
    } else {
      std::copy_n(rows, depth, result);
    }
    result += depth;
    if (depth % 2 > 0) *result++ = Bfloat16{};
  }
}

/// The matrix that places are multiplied with, as panels of columns: [columns / kPanelColumns, steps, kPanelColumns].
at::Tensor to_panels(const at::Tensor& weights, bool transposed, bool in_pairs) {
  const at::Tensor matrix = weights.flatten(1).contiguous();
  const int64_t depth = matrix.size(transposed ? 0 : 1), columns = matrix.size(transposed ? 1 : 0),
                steps = steps_of(depth, in_pairs), size = steps * kPanelColumns;
  const at::Tensor panels =
      at::empty({device::blocks_for(columns, kPanelColumns), steps, kPanelColumns}, matrix.options());
  const auto* from = matrix.const_data_ptr<float>();
  auto* const to = panels.mutable_data_ptr<float>();
  parallel_for(panels.size(0), [&](int64_t panel) {
    const int64_t first = panel * kPanelColumns, own = std::min(columns - first, kPanelColumns);
    float* const target = to + panel * size;
    if (transposed) {
      pack_for(in_pairs, from + first, columns, depth, own, target, kPanelColumns, size);
    } else if (in_pairs) {
      const auto rows = scratch(own * steps);
      pair_neighbours(from + first * depth, own, depth, reinterpret_cast<Bfloat16*>(rows.get()));
      pack_across(rows.get(), steps, own, steps, target);
    } else {
      pack_across(from + first * depth, depth, own, depth, target);
    }
  });
  return panels;
}

}  // namespace

bool multiplies_pairs(at::ScalarType maps) { return maps == at::kBFloat16 && has_bfloat16_arithmetic(); }

PlaceProducts::PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed, bool in_pairs)
    : depth_(weights.size(transposed ? 0 : 1)),
      columns_(weights.size(transposed ? 1 : 0)),
      in_pairs_(in_pairs),
      panels_(to_panels(weights, transposed, in_pairs)) {
  if (biases.defined()) start_ = at::constant_pad_nd(biases, {0, panels_.size(0) * kPanelColumns - columns_});
}

template <class T, class Product>
void PlaceProducts::multiply(const T* places, int64_t count, const Ahead& ahead, Product* products) const {
  constexpr bool kFloats = std::is_same_v<Product, float>, kPairs = std::is_same_v<Product, Bfloat16>;
  if (!kFloats && !(kPairs && in_pairs_)) {
    const auto drafts = scratch(count * columns_);
    multiply(places, count, ahead, drafts.get());
    if constexpr (!kFloats) round_floats(drafts.get(), count * columns_, products);
    return;
  }
  const auto* const panels = panels_.const_data_ptr<float>();
  const float* const start = start_.defined() ? start_.const_data_ptr<float>() : nullptr;
  const int64_t steps = panels_.size(1);
  if (!in_pairs_) {
    const auto space = scratch(std::is_same_v<T, float> ? 0 : count * depth_);
    if constexpr (kFloats)
      multiply_rows(floats_of(places, count * depth_, space.get()), count, steps, panels, start, columns_, ahead,
                    products);
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<Product, Float16>) {
    TORCH_INTERNAL_ASSERT(false, "float16 numbers are not multiplied in pairs");
  } else {
    const bool in_place = std::is_same_v<T, Bfloat16> && depth_ % 2 == 0;
    const auto space = scratch(in_place ? 0 : count * steps);
    if (!in_place) pair_neighbours(places, count, depth_, reinterpret_cast<Bfloat16*>(space.get()));
    multiply_rows_of_pairs(in_place ? reinterpret_cast<const float*>(places) : space.get(), count, steps, panels, start,
                           columns_, ahead, products);
  }
}
template void PlaceProducts::multiply(const float*, int64_t, const Ahead&, float*) const;
template void PlaceProducts::multiply(const Bfloat16*, int64_t, const Ahead&, float*) const;
template void PlaceProducts::multiply(const Float16*, int64_t, const Ahead&, float*) const;
template void PlaceProducts::multiply(const float*, int64_t, const Ahead&, Bfloat16*) const;
template void PlaceProducts::multiply(const Bfloat16*, int64_t, const Ahead&, Bfloat16*) const;
template void PlaceProducts::multiply(const float*, int64_t, const Ahead&, Float16*) const;
template void PlaceProducts::multiply(const Float16*, int64_t, const Ahead&, Float16*) const;

int64_t PlaceSums::groups_for(int64_t O, int64_t I, int64_t places) {
  constexpr int64_t kBytes = 8 << 20, kLeast = 8, kMost = 64, kPlaces = 96;  // of a group, at least
  const int64_t fit = kBytes / (O * I * static_cast<int64_t>(sizeof(float)));
  return fit < kLeast ? 0 : std::min({(places + kPlaces - 1) / kPlaces, fit, kMost});
}

PlaceSums::PlaceSums(int64_t O, int64_t I, int64_t groups, bool in_pairs)
    : rows_(O),
      columns_(I),
      groups_(groups),
      row_panels_(device::blocks_for(O, kPanelRows)),
      column_panels_(device::blocks_for(I, kPanelColumns)),
      in_pairs_(in_pairs),
      tiles_(at::empty({groups, column_panels_, row_panels_, kPanelRows, kPanelColumns}, at::kFloat)) {}

void PlaceSums::add(int64_t group, bool first, const float* a, const float* b, int64_t count, const Ahead& ahead,
                    const Ahead& more) {
  (in_pairs_ ? add_tiles_of_pairs : add_tiles)(a, row_step_for(rows_), row_panels_, b, column_panels_, steps(count),
                                               ahead, more, /*goes_on=*/!first,
                                               tiles_.mutable_data_ptr<float>() + group * tiles_.stride(0));
}

template <class T>
void PlaceSums::pack_rows(const T* a, int64_t count, float* rows) const {
  pack_for(in_pairs_, a, rows_, count, rows_, rows, row_step_for(rows_), kPanelColumns);
}
template <class T>
void PlaceSums::pack_columns(const T* b, int64_t count, float* panels) const {
  pack_for(in_pairs_, b, columns_, count, columns_, panels, kPanelColumns, steps(count) * kPanelColumns);
}
template void PlaceSums::pack_rows(const float*, int64_t, float*) const;
template void PlaceSums::pack_rows(const Bfloat16*, int64_t, float*) const;
template void PlaceSums::pack_columns(const float*, int64_t, float*) const;
template void PlaceSums::pack_columns(const Bfloat16*, int64_t, float*) const;

at::Tensor PlaceSums::total() {
  const at::Tensor result = at::empty({rows_, columns_, 1, 1}, tiles_.options());
  auto *const tiles = tiles_.mutable_data_ptr<float>(), *const out = result.mutable_data_ptr<float>();
  const int64_t size = tiles_.stride(0), column = row_panels_ * kPanelRows * kPanelColumns;
  parallel_for(column_panels_, [&](int64_t panel) {
    const int64_t first = panel * kPanelColumns, own = std::min(columns_ - first, kPanelColumns);
    float* const sums = tiles + panel * column;  // those of the first group
    for (int64_t group = 1; group < groups_; ++group) add_floats(sums + group * size, column, sums);
    for (int64_t row = 0; row < rows_; ++row)
      std::copy_n(sums + row * kPanelColumns, own, out + row * columns_ + first);
  });
  return result;
}

template <class T>
at::Tensor sum_products(const T* a, int64_t O, const T* b, int64_t I, int64_t count, bool in_pairs) {
  constexpr int64_t kAtATime = 4;  // panels, as many as the widest tile has: more would leave threads without a task
  constexpr int64_t kChannels = kAtATime * kPanelColumns;
  const int64_t row_panels = device::blocks_for(O, kPanelRows), column_panels = device::blocks_for(I, kPanelColumns),
                steps = steps_of(count, in_pairs), row_step = row_step_for(O);
  const auto rows = scratch(steps * row_step), columns = scratch(column_panels * steps * kPanelColumns);
  const at::Tensor result = at::empty({O, I, 1, 1}, at::kFloat);
  auto* const out = result.mutable_data_ptr<float>();
  parallel_for(device::blocks_for(O, kChannels), [&](int64_t task) {
    const int64_t first = task * kChannels;
    pack_for(in_pairs, a + first, O, count, std::min(kChannels, O - first), rows.get() + first, row_step,
             kPanelColumns);
  });
  parallel_for(device::blocks_for(column_panels, kAtATime), [&](int64_t task) {
    const int64_t first = task * kAtATime, own = std::min(kAtATime, column_panels - first);
    float* const own_columns = columns.get() + first * steps * kPanelColumns;
    pack_for(in_pairs, b + first * kPanelColumns, I, count, std::min(kChannels, I - first * kPanelColumns), own_columns,
             kPanelColumns, steps * kPanelColumns);
    const auto tiles = scratch(own * row_panels * kPanelRows * kPanelColumns);
    (in_pairs ? add_tiles_of_pairs : add_tiles)(rows.get(), row_step, row_panels, own_columns, own, steps, {}, {},
                                                /*goes_on=*/false, tiles.get());
    for (int64_t panel = 0; panel < own; ++panel) {
      const int64_t column = (first + panel) * kPanelColumns, width = std::min(kPanelColumns, I - column);
      for (int64_t row = 0; row < O; ++row)
        std::copy_n(tiles.get() + (panel * row_panels * kPanelRows + row) * kPanelColumns, width,
                    out + row * I + column);
    }
  });
  return result;
}

template at::Tensor sum_products(const float*, int64_t, const float*, int64_t, int64_t, bool);
template at::Tensor sum_products(const Bfloat16*, int64_t, const Bfloat16*, int64_t, int64_t, bool);

template <class T>
at::Tensor sum_over_places(const T* a, int64_t O, const T* b, int64_t I, int64_t count) {
  constexpr bool kInPairs = std::is_same_v<T, Bfloat16>;
  const int64_t groups = PlaceSums::groups_for(O, I, count);
  if (groups == 0) return sum_products(a, O, b, I, count, kInPairs);
  PlaceSums sums(O, I, groups, kInPairs);
  const PlaceTasks tasks(count, std::max(O, I), groups);
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
template at::Tensor sum_over_places(const float*, int64_t, const float*, int64_t, int64_t);
template at::Tensor sum_over_places(const Bfloat16*, int64_t, const Bfloat16*, int64_t, int64_t);

PlaceTasks::PlaceTasks(int64_t places, int64_t width, int64_t shares) : places_(places), tiles_(places / kLeastRows) {
  const int64_t of_a_task = std::clamp(kFloatsOfATask / (kLeastRows * width), kLeastTiles, kMostTiles);
  count_ = std::min(tiles_, device::blocks_for(tiles_ / of_a_task + 1, shares) * shares);
}

int64_t PlaceTasks::most() const { return (tiles_ + count_ - 1) / count_ * kLeastRows + places_ % kLeastRows; }

std::pair<int64_t, int64_t> PlaceTasks::places(int64_t task) const {
  const int64_t end = (task + 1) * tiles_ / count_ * kLeastRows;
  return {task * tiles_ / count_ * kLeastRows, task + 1 == count_ ? places_ : end};  // the last has what is left over
}

void PlaceTasks::for_each(c10::function_ref<void(int64_t task, int64_t begin, int64_t end)> work) const {
  parallel_for(count_, [&](int64_t task) {
    const auto [begin, end] = places(task);
    work(task, begin, end);
  });
}

}  // namespace osprey::kernels::cpu
