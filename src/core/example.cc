#include "osprey/core/example.h"

#include <ATen/ATen.h>

namespace osprey {
namespace {

template <class T>
void select(std::vector<T>& list, const std::vector<int64_t>& indices) {
  if (list.empty()) return;
  std::vector<T> kept;
  kept.reserve(indices.size());
  for (int64_t index : indices) kept.push_back(list[index]);
  list = std::move(kept);
}

void select(at::Tensor& rows, const at::Tensor& indices) {
  if (rows.defined()) rows = rows.index_select(0, indices);
}

}  // namespace

void select(Example& example, const std::vector<int64_t>& indices) {
  const int64_t size = static_cast<int64_t>(example.boxes.size());
  for (int64_t index : indices) TORCH_CHECK(index >= 0 && index < size, "object ", index, " of an example with ", size);
  select(example.boxes, indices);
  select(example.classes, indices);
  select(example.weights, indices);
  select(example.confidences, indices);
  select(example.is_crowd, indices);
  select(example.difficult, indices);
  select(example.group_of, indices);
  select(example.area, indices);
  select(example.mask_weights, indices);
  const at::Tensor rows = at::tensor(indices, at::kLong);
  select(example.multiclass_scores, rows);
  select(example.masks, rows);
  select(example.keypoints, rows);
  select(example.keypoint_visibilities, rows);
}

}  // namespace osprey
