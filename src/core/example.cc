#include "osprey/core/example.h"

#include <ATen/ATen.h>

#include <algorithm>

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

template <class T>
void append(std::vector<T>& list, size_t size, const std::vector<T>& more, size_t more_size, T missing) {
  if (list.empty() && more.empty()) return;
  list.resize(size, missing);
  list.insert(list.end(), more.begin(), more.end());
  list.resize(size + more_size, missing);
}

void append(at::Tensor& rows, const at::Tensor& more, const char* name) {
  TORCH_CHECK(rows.defined() == more.defined(), "only one of two examples has ", name);
  if (rows.defined()) rows = at::cat({rows, more}, 0);
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

void append(Example& example, const Example& more) {
  const size_t size = example.boxes.size(), more_size = more.boxes.size();
  const auto join = [&](auto member, auto missing) { append(example.*member, size, more.*member, more_size, missing); };
  join(&Example::boxes, Box{});
  join(&Example::classes, int64_t{0});
  join(&Example::weights, 1.0f);
  join(&Example::confidences, 1.0f);
  join(&Example::is_crowd, uint8_t{0});
  join(&Example::difficult, uint8_t{0});
  join(&Example::group_of, uint8_t{0});
  join(&Example::area, 0.0f);
  join(&Example::mask_weights, 1.0f);
  append(example.multiclass_scores, more.multiclass_scores, "multiclass_scores");
  append(example.masks, more.masks, "masks");
  append(example.keypoints, more.keypoints, "keypoints");
  append(example.keypoint_visibilities, more.keypoint_visibilities, "keypoint_visibilities");

  append(example.image_confidences, example.image_classes.size(), more.image_confidences, more.image_classes.size(),
         1.0f);
  const auto join_labels = [&](auto member) {
    (example.*member).insert((example.*member).end(), (more.*member).begin(), (more.*member).end());
  };
  join_labels(&Example::image_classes);
  join_labels(&Example::not_exhaustive_classes);
  std::erase_if(example.negative_classes,
                [&](int64_t label) { return std::ranges::count(more.negative_classes, label) == 0; });
}

}  // namespace osprey
