#include "kernels/cpu/place_products.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/product_panels.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

// What a task has at a time should stay in the core's own cache, as often as its weights pass by; but the fewer places,
// the more often these and the sums of their gradients pass by, and the less there is to do for what beginning costs.
constexpr int64_t kFloatsOfATask = 24 << 10, kLeastTiles = 16, kMostTiles = 64;

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

int64_t panels_for(int64_t columns) { return round_up(columns, kPanelColumns) / kPanelColumns; }

/// The matrix that places are multiplied with, as panels of columns: [columns / kPanelColumns, depth, kPanelColumns].
at::Tensor to_panels(const at::Tensor& weights, bool transposed) {
  const at::Tensor matrix = weights.flatten(1).contiguous();
  const int64_t depth = matrix.size(transposed ? 0 : 1), columns = matrix.size(transposed ? 1 : 0),
                size = depth * kPanelColumns;
  const at::Tensor panels = at::empty({panels_for(columns), depth, kPanelColumns}, matrix.options());
  const auto* from = matrix.const_data_ptr<float>();
  auto* const to = panels.mutable_data_ptr<float>();
  parallel_for(panels.size(0), [&](int64_t panel) {
    const int64_t first = panel * kPanelColumns, own = std::min(columns - first, kPanelColumns);
    if (transposed) {
      pack_panels(from + first, columns, depth, own, kPanelColumns, to + panel * size, size);
    } else {
      pack_across(from + first * depth, own, depth, to + panel * size);
    }
  });
  return panels;
}

}  // namespace

PlaceProducts::PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed)
    : columns_(weights.size(transposed ? 1 : 0)), panels_(to_panels(weights, transposed)) {
  if (biases.defined()) start_ = at::constant_pad_nd(biases, {0, round_up(columns_, kPanelColumns) - columns_});
}

void PlaceProducts::multiply(const float* places, int64_t count, const Ahead& ahead, float* products) const {
  multiply_rows(places, count, depth(), panels_.const_data_ptr<float>(),
                start_.defined() ? start_.const_data_ptr<float>() : nullptr, columns_, ahead, products);
}

int64_t PlaceSums::groups_for(int64_t O, int64_t I, int64_t places) {
  constexpr int64_t kBytes = 8 << 20, kLeast = 8, kMost = 64, kPlaces = 96;  // of a group, at least
  const int64_t fit = kBytes / (O * I * static_cast<int64_t>(sizeof(float)));
  return fit < kLeast ? 0 : std::min({(places + kPlaces - 1) / kPlaces, fit, kMost});
}

PlaceSums::PlaceSums(int64_t O, int64_t I, int64_t groups)
    : rows_(O),
      columns_(I),
      groups_(groups),
      row_panels_(round_up(O, kPanelRows) / kPanelRows),
      column_panels_(panels_for(I)),
      tiles_(at::empty({groups, column_panels_, row_panels_, kPanelRows, kPanelColumns}, at::kFloat)) {}

void PlaceSums::add(int64_t group, bool first, const float* a, const float* b, int64_t count, const Ahead& ahead,
                    const Ahead& more) {
  add_tiles(a, row_panels_, b, column_panels_, count, ahead, more, /*goes_on=*/!first,
            tiles_.mutable_data_ptr<float>() + group * tiles_.stride(0));
}

at::Tensor PlaceSums::total() const {
  const at::Tensor result = at::empty({rows_, columns_, 1, 1}, tiles_.options());
  const auto* const tiles = tiles_.const_data_ptr<float>();
  auto* const out = result.mutable_data_ptr<float>();
  const int64_t size = tiles_.stride(0), column = row_panels_ * kPanelRows * kPanelColumns;
  parallel_for(column_panels_, [&](int64_t panel) {
    const int64_t first = panel * kPanelColumns, own = std::min(columns_ - first, kPanelColumns);
    for (int64_t row = 0; row < rows_; ++row) {
      float sums[kPanelColumns] = {};
      for (int64_t group = 0; group < groups_; ++group)
        for (int64_t c = 0; c < kPanelColumns; ++c)
          sums[c] += tiles[group * size + panel * column + row * kPanelColumns + c];
      std::copy(sums, sums + own, out + row * columns_ + first);
    }
  });
  return result;
}

at::Tensor sum_products(const float* a, int64_t O, const float* b, int64_t I, int64_t count) {
  constexpr int64_t kAtATime = 4;  // panels, as many as the widest tile has: more would leave threads without a task
  const int64_t row_panels = round_up(O, kPanelRows) / kPanelRows, column_panels = panels_for(I);
  const at::Tensor rows = at::empty({row_panels, count, kPanelRows}, at::kFloat),
                   columns = at::empty({column_panels, count, kPanelColumns}, at::kFloat),
                   result = at::empty({O, I, 1, 1}, at::kFloat);
  auto *const of_rows = rows.mutable_data_ptr<float>(), *const of_columns = columns.mutable_data_ptr<float>(),
              *const out = result.mutable_data_ptr<float>();
  const auto pack = [&](const float* map, int64_t channels, int64_t width, int64_t task, float* panels) {
    const int64_t first = task * kAtATime * width, own = std::min(kAtATime * width, channels - first);
    pack_panels(map + first, channels, count, own, width, panels + first * count, count * width);
  };
  parallel_for(round_up(row_panels, kAtATime) / kAtATime, [&](int64_t task) { pack(a, O, kPanelRows, task, of_rows); });
  parallel_for(round_up(column_panels, kAtATime) / kAtATime, [&](int64_t task) {
    pack(b, I, kPanelColumns, task, of_columns);
    const int64_t first = task * kAtATime, own = std::min(kAtATime, column_panels - first);
    const auto tiles = scratch(own * row_panels * kPanelRows * kPanelColumns);
    add_tiles(of_rows, row_panels, of_columns + first * count * kPanelColumns, own, count, {}, {}, /*goes_on=*/false,
              tiles.get());
    for (int64_t panel = 0; panel < own; ++panel) {
      const int64_t column = (first + panel) * kPanelColumns, width = std::min(kPanelColumns, I - column);
      for (int64_t row = 0; row < O; ++row)
        std::copy_n(tiles.get() + (panel * row_panels * kPanelRows + row) * kPanelColumns, width,
                    out + row * I + column);
    }
  });
  return result;
}

PlaceTasks::PlaceTasks(int64_t places, int64_t width, int64_t shares) : places_(places), tiles_(places / kLeastRows) {
  const int64_t of_a_task = std::clamp(kFloatsOfATask / (kLeastRows * width), kLeastTiles, kMostTiles);
  count_ = std::min(tiles_, round_up(tiles_ / of_a_task + 1, shares));
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
