#include "osprey/core/batch.h"

#include <ATen/ATen.h>

namespace osprey {
namespace {

template <class T, class Action>
void for_each_tensor(T& batch, Action action) {
  for (auto* tensor :
       {&batch.images, &batch.true_shapes, &batch.source_shapes, &batch.boxes, &batch.classes, &batch.weights,
        &batch.confidences, &batch.is_crowd, &batch.difficult, &batch.group_of, &batch.area, &batch.valid,
        &batch.image_classes, &batch.image_weights, &batch.example_keys, &batch.original_sizes})
    if (tensor->defined()) action(*tensor);
}

/// The batch with `change` applied to each of its tensors that is there.
template <class Change>
Batch transformed(const Batch& batch, Change change) {
  Batch result = batch;
  for_each_tensor(result, [&](at::Tensor& tensor) { tensor = change(tensor); });
  return result;
}

}  // namespace

const at::Tensor& picture_shapes(const Batch& batch) {
  return batch.source_shapes.defined() ? batch.source_shapes : batch.true_shapes;
}

Batch to(const Batch& batch, const at::Device& device) {
  const bool waits = device.is_cpu();  // whoever reads there would read too early
  return transformed(batch, [&](const at::Tensor& tensor) {
    return tensor.to(device, tensor.scalar_type(), /*non_blocking=*/!waits);
  });
}

Batch pinned(const Batch& batch) {
  return transformed(batch, [](const at::Tensor& tensor) { return tensor.pin_memory(); });
}

Batch clone(const Batch& batch) {
  return transformed(batch, [](const at::Tensor& tensor) { return tensor.clone(); });
}

void copy(const Batch& from, Batch& result) {
  std::vector<at::Tensor> sources;
  for_each_tensor(from, [&](const at::Tensor& tensor) { sources.push_back(tensor); });
  size_t next = 0;
  for_each_tensor(result, [&](at::Tensor& tensor) {
    TORCH_CHECK(next < sources.size() && sources[next].sizes() == tensor.sizes(), "a batch of other shapes");
    tensor.copy_(sources[next++], /*non_blocking=*/true);
  });
  result.ids = from.ids;
}

void used_on(const Batch& batch, const c10::Stream& stream) {
  for_each_tensor(batch, [&](const at::Tensor& tensor) { tensor.record_stream(stream); });
}

int64_t bytes_of(const Batch& batch) {
  int64_t bytes = 0;
  for_each_tensor(batch, [&](const at::Tensor& tensor) { bytes += static_cast<int64_t>(tensor.nbytes()); });
  return bytes;
}

Batch slice(const Batch& batch, int64_t begin, int64_t end) {
  Batch result = transformed(batch, [&](const at::Tensor& tensor) { return tensor.slice(0, begin, end); });
  result.ids.assign(batch.ids.begin() + begin, batch.ids.begin() + end);
  return result;
}

}  // namespace osprey
