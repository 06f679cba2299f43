#pragma once
#include <ATen/ATen.h>

#include "osprey/models/detection_model.h"

namespace osprey {

/// Made-up pictures of the model's input size with seven boxes each, always the same, on `device`.
inline Batch constant_batch(const models::DetectionModel& model, int64_t size, const at::Device& device = at::kCPU) {
  at::manual_seed(1);
  const auto [height, width] = model.input_size();
  Batch batch;
  batch.images = at::randint(0, 256, {size, 3, height, width}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({height, width}, at::kLong).repeat({size, 1});
  const at::Tensor corner = at::rand({size, 100, 2}) * 0.7, extent = at::rand({size, 100, 2}) * 0.25 + 0.05;
  batch.valid = at::arange(100).lt(7).repeat({size, 1});  // seven boxes a picture
  batch.weights = batch.valid.to(at::kFloat);
  batch.boxes = at::cat({corner, corner + extent}, 2) * batch.weights.unsqueeze(2);
  batch.classes = at::randint(0, model.num_classes(), {size, 100}, at::kLong);
  batch.image_weights = at::ones({size});
  batch.example_keys = at::arange(size);
  for (at::Tensor* tensor : {&batch.images, &batch.true_shapes, &batch.valid, &batch.weights, &batch.boxes,
                             &batch.classes, &batch.image_weights, &batch.example_keys})
    *tensor = tensor->to(device);
  return batch;
}

}  // namespace osprey
