#include "kernels/cpu/place_products.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/amx_products.h"
#include "kernels/cpu/loops/inner_products.h"
#include "kernels/device/kernel.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Rows of which the numbers come in pairs, `steps` of them; those that there are not become zero.
template <class T>
void pair_neighbours(const T* rows, int64_t count, int64_t depth, int64_t steps, Bfloat16* result) {
  for (int64_t row = 0; row < count; ++row, rows += depth, result += 2 * steps) {
    if constexpr (std::is_same_v<T, float>) {
      round_floats(rows, depth, result);
    } else {
      std::copy_n(rows, depth, result);
    }
    std::fill(result + depth, result + 2 * steps, Bfloat16{});
  }
}

/// Numbers that a column has in a panel, or pairs of them.
int64_t panel_steps(Arithmetic arithmetic, int64_t depth) {
  if (arithmetic == Arithmetic::kInnerProducts) return inner_steps(depth) + kInnerEnds;
  const int64_t steps = steps_of(depth, rounds(arithmetic));
  return arithmetic == Arithmetic::kAmx ? amx_steps(steps) : steps;
}

/// The matrix that places are multiplied with, as panels of columns: [columns / kPanelColumns, steps, kPanelColumns].
at::Tensor to_panels(const at::Tensor& weights, bool transposed, Arithmetic arithmetic) {
  const bool in_pairs = rounds(arithmetic), balanced = arithmetic == Arithmetic::kInnerProducts;
  const at::Tensor matrix = weights.flatten(1).contiguous();
  const int64_t depth = matrix.size(transposed ? 0 : 1), columns = matrix.size(transposed ? 1 : 0),
                steps = panel_steps(arithmetic, depth), size = steps * kPanelColumns;
  const at::Tensor panels =
      at::empty({device::blocks_for(columns, kPanelColumns), steps, kPanelColumns}, matrix.options());
  const auto* from = matrix.const_data_ptr<float>();
  auto* const to = panels.mutable_data_ptr<float>();
  if (transposed) {
    parallel_for(device::blocks_for(depth, kPackedRows), [&](int64_t task) {
      const int64_t row = task * kPackedRows, own = std::min(kPackedRows, depth - row);
      float* const target = to + steps_of(row, in_pairs) * kPanelColumns;
      if (in_pairs) {
        pack_pairs(from + row * columns, columns, own, columns, target, kPanelColumns, size);
      } else {
        pack_panels(from + row * columns, columns, own, columns, target, kPanelColumns, size);
      }
    });
    if (balanced)
      parallel_for(panels.size(0),
                   [&](int64_t panel) { balance_columns(to + panel * size, kPanelColumns, depth, kPanelColumns); });
    const int64_t own = steps_of(depth, in_pairs);
    if (in_pairs && steps > own)
      for (int64_t panel = 0; panel < panels.size(0); ++panel)
        std::fill(to + panel * size + own * kPanelColumns, to + (panel + 1) * size, 0.0f);
    return panels;
  }
  parallel_for(panels.size(0), [&](int64_t panel) {
    const int64_t first = panel * kPanelColumns, own = std::min(columns - first, kPanelColumns);
    float* const target = to + panel * size;
    if (in_pairs) {
      const auto rows = scratch(own * steps);
      pair_neighbours(from + first * depth, own, depth, steps, reinterpret_cast<Bfloat16*>(rows.get()));
      pack_across(rows.get(), steps, own, steps, target);
    } else {
      pack_across(from + first * depth, depth, own, depth, target);
      if (balanced) balance_columns(target, kPanelColumns, depth, kPanelColumns);
    }
  });
  return panels;
}

}  // namespace

PlaceProducts::PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                             Arithmetic arithmetic)
    : depth_(weights.size(transposed ? 0 : 1)),
      columns_(weights.size(transposed ? 1 : 0)),
      arithmetic_(arithmetic_of_matrix(arithmetic, depth_, columns_)),
      panels_(to_panels(weights, transposed, arithmetic_)) {
  if (biases.defined()) start_ = at::constant_pad_nd(biases, {0, panels_.size(0) * kPanelColumns - columns_});
}

template <class T, class Product>
void PlaceProducts::multiply(const T* places, int64_t count, const Ahead& ahead, Product* products) const {
  constexpr bool kFloats = std::is_same_v<Product, float>, kHalves = std::is_same_v<Product, Bfloat16>;
  const bool of_floats = !rounds(arithmetic_);
  if (!kFloats && !(kHalves && !of_floats)) {
    const auto drafts = scratch(count * columns_);
    multiply(places, count, ahead, drafts.get());
    if constexpr (!kFloats) round_floats(drafts.get(), count * columns_, products);
    return;
  }
  const auto* const panels = panels_.const_data_ptr<float>();
  const float* const start = start_.defined() ? start_.const_data_ptr<float>() : nullptr;
  const int64_t steps = panels_.size(1);
  if (of_floats) {
    const auto space = scratch(std::is_same_v<T, float> ? 0 : count * depth_);
    const float* const rows = floats_of(places, count * depth_, space.get());
    if constexpr (kFloats) {
      if (arithmetic_ == Arithmetic::kFloats)
        return multiply_rows(rows, count, steps, panels, start, columns_, ahead, products);
      const auto scaled = scratch(count * inner_row_size(depth_));
      balance_rows(rows, count, depth_, scaled.get());
      multiply_by_inner_products(scaled.get(), count, depth_, panels, start, columns_, ahead, products);
    }
  } else if constexpr (std::is_same_v<T, Float16> || std::is_same_v<Product, Float16>) {
    TORCH_INTERNAL_ASSERT(false, "float16 numbers are multiplied as floats");
  } else {
    const bool in_place = std::is_same_v<T, Bfloat16> && depth_ == 2 * steps;
    const auto space = scratch(in_place ? 0 : count * steps);
    if (!in_place) pair_neighbours(places, count, depth_, steps, reinterpret_cast<Bfloat16*>(space.get()));
    const auto* const rows = in_place ? reinterpret_cast<const float*>(places) : space.get();
    if (arithmetic_ == Arithmetic::kPairs)
      return multiply_rows_of_pairs(rows, count, steps, panels, start, columns_, ahead, products);
    constexpr int64_t kOnePiece = 0;
    multiply_rows_by_amx({reinterpret_cast<const Bfloat16*>(rows), 2 * steps, steps, &kOnePiece, 1}, count, panels,
                         start, columns_, ahead, products);
  }
}
template void PlaceProducts::multiply(const float*, int64_t, const Ahead&, float*) const;
template void PlaceProducts::multiply(const Bfloat16*, int64_t, const Ahead&, float*) const;
template void PlaceProducts::multiply(const Float16*, int64_t, const Ahead&, float*) const;
template void PlaceProducts::multiply(const float*, int64_t, const Ahead&, Bfloat16*) const;
template void PlaceProducts::multiply(const Bfloat16*, int64_t, const Ahead&, Bfloat16*) const;
template void PlaceProducts::multiply(const float*, int64_t, const Ahead&, Float16*) const;
template void PlaceProducts::multiply(const Float16*, int64_t, const Ahead&, Float16*) const;

}  // namespace osprey::kernels::cpu
