#include "osprey/core/batch.h"

#include <ATen/ATen.h>

namespace osprey {
namespace {

/// The batch with `change` applied to each of its tensors that is there.
template <class Change>
Batch transformed(const Batch& batch, Change change) {
  Batch result = batch;
  for (at::Tensor* tensor : {&result.images, &result.true_shapes, &result.boxes, &result.classes, &result.weights,
                             &result.confidences, &result.is_crowd, &result.difficult, &result.group_of, &result.area,
                             &result.valid, &result.image_weights, &result.example_keys, &result.original_sizes})
    if (tensor->defined()) *tensor = change(*tensor);
  return result;
}

}  // namespace

Batch to(const Batch& batch, const at::Device& device) {
  return transformed(
      batch, [&](const at::Tensor& tensor) { return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/true); });
}

int64_t bytes_of(const Batch& batch) {
  int64_t bytes = 0;
  transformed(batch, [&](const at::Tensor& tensor) {
    bytes += static_cast<int64_t>(tensor.nbytes());
    return tensor;
  });
  return bytes;
}

Batch slice(const Batch& batch, int64_t begin, int64_t end) {
  Batch result = transformed(batch, [&](const at::Tensor& tensor) { return tensor.slice(0, begin, end); });
  result.ids.assign(batch.ids.begin() + begin, batch.ids.begin() + end);
  return result;
}

}  // namespace osprey
