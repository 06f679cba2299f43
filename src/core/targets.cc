#include "osprey/core/targets.h"

#include <ATen/ATen.h>

namespace osprey {

at::Tensor rows_of_anchors(const at::Tensor& rows, const at::Tensor& row) {
  TORCH_CHECK(rows.dim() >= 2 && row.dim() == 2 && rows.size(0) == row.size(0),
              "expected rows [B, R, ...] and [B, A], got ", rows.sizes(), " and ", row.sizes());
  const at::Tensor first = at::arange(rows.size(0), row.options()).mul(rows.size(1)).unsqueeze(1);
  std::vector<int64_t> shape = rows.sizes().vec();
  shape[1] = row.size(1);
  return rows.flatten(0, 1).index_select(0, (row + first).flatten()).view(shape);
}

at::Tensor ClassTargets::of_anchors() const { return rows_of_anchors(rows, row); }

at::Tensor ClassTargets::weights_of_anchors() const { return rows_of_anchors(weights, row); }

ClassTargets class_targets(const at::Tensor& targets, const at::Tensor& weights) {
  TORCH_CHECK(targets.dim() == 3, "class targets must be [B, A, C], got ", targets.sizes());
  const at::Tensor row = at::arange(targets.size(1), targets.options().dtype(at::kLong));
  return {targets, weights, row.expand({targets.size(0), targets.size(1)})};
}

}  // namespace osprey
