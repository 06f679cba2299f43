#include "osprey/kernels/pointwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/operator.h"
#include "osprey/base/cpu.h"
#include "osprey/kernels/device.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

constexpr int64_t kTilesOfATask = 16;  // about: with 1024 channels its rows fill a core's own cache

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/// The matrix [I, O] that a row is multiplied with, as panels of columns: [O / kPanelColumns, I, kPanelColumns].
/// weights     [O, I], contiguous
/// transposed  the matrix is [O, I] and the panels are of I
at::Tensor panels_of(const at::Tensor& weights, bool transposed) {
  const int64_t depth = weights.size(transposed ? 0 : 1), columns = weights.size(transposed ? 1 : 0);
  const int64_t count = round_up(columns, cpu::kPanelColumns) / cpu::kPanelColumns, size = depth * cpu::kPanelColumns;
  const at::Tensor panels = at::empty({count, depth, cpu::kPanelColumns}, weights.options());
  const auto* from = weights.const_data_ptr<float>();
  auto* const to = panels.mutable_data_ptr<float>();
  parallel_for(count, [&](int64_t panel) {
    const int64_t first = panel * cpu::kPanelColumns, own = std::min(columns - first, cpu::kPanelColumns);
    if (transposed) {
      cpu::pack_panels(from + first, columns, depth, own, cpu::kPanelColumns, to + panel * size, size);
    } else {
      cpu::pack_across(from + first * depth, own, depth, to + panel * size);
    }
  });
  return panels;
}

at::Tensor pointwise_operator(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                              bool transposed) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(2) == 1 && weights.size(3) == 1 &&
                  x.size(1) == weights.size(transposed ? 0 : 1),
              "expected maps [B, I, H, W] and weights [O, I, 1, 1], got ", x.sizes(), " and ", weights.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat, "expected float32");
  const int64_t depth = x.size(1), columns = weights.size(transposed ? 1 : 0);
  TORCH_CHECK(!biases || (biases->scalar_type() == at::kFloat && biases->sizes() == at::IntArrayRef{columns}),
              "expected ", columns, " biases of float32");
  at::Tensor result =
      at::empty({x.size(0), columns, x.size(2), x.size(3)}, x.options(), at::MemoryFormat::ChannelsLast);
  if (x.is_meta()) return result;
  const int64_t places = x.size(0) * x.size(2) * x.size(3);
  const at::Tensor maps = x.contiguous(at::MemoryFormat::ChannelsLast), matrix = weights.flatten(1).contiguous();
  if (!device::takes_loops(x) || places < cpu::kPanelRows) {
    at::Tensor rows = result.permute({0, 2, 3, 1}).view({places, columns});
    at::mm_out(rows, maps.permute({0, 2, 3, 1}).reshape({places, depth}), transposed ? matrix : matrix.t());
    if (biases) rows.add_(*biases);
    return result;
  }
  const at::Tensor panels = panels_of(matrix, transposed);
  at::Tensor start;
  if (biases) start = at::constant_pad_nd(*biases, {0, round_up(columns, cpu::kPanelColumns) - columns});
  const auto *in = maps.const_data_ptr<float>(), *packed = panels.const_data_ptr<float>();
  const float* const added = biases ? start.const_data_ptr<float>() : nullptr;
  auto* const out = result.mutable_data_ptr<float>();
  const int64_t tiles = places / cpu::kPanelRows;  // the last task has what is left over, too
  const int64_t tasks = std::min(tiles, round_up(tiles / kTilesOfATask + 1, at::get_num_threads()));
  parallel_for(tasks, [&](int64_t task) {
    const int64_t first = task * tiles / tasks * cpu::kPanelRows,
                  end = task + 1 == tasks ? places : (task + 1) * tiles / tasks * cpu::kPanelRows;
    cpu::multiply_rows(in + first * depth, depth, end - first, depth, packed, added, columns, out + first * columns);
  });
  return result;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "pointwise_convolution(Tensor x, Tensor weights, Tensor? biases, bool transposed) -> Tensor",
         &pointwise_operator);
}

at::Tensor multiply_places(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases, bool transposed) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("pointwise_convolution", &pointwise_operator);
  return operation.call(x, weights, biases.defined() ? std::optional(biases) : std::nullopt, transposed);
}

}  // namespace

bool takes_pointwise(const at::Tensor& x, const at::Tensor& weights) {
  return device::takes_loops(x) && !has_avx512() && x.scalar_type() == at::kFloat &&
         weights.scalar_type() == at::kFloat && x.is_contiguous(at::MemoryFormat::ChannelsLast) && weights.dim() == 4 &&
         weights.size(1) == x.size(1) && weights.size(2) == 1 && weights.size(3) == 1;
}

at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  return multiply_places(x, weights, biases, /*transposed=*/false);
}

at::Tensor pointwise_convolution_gradient(const at::Tensor& gradient_y, const at::Tensor& weights) {
  return multiply_places(gradient_y, weights, {}, /*transposed=*/true);
}

}  // namespace osprey::kernels
