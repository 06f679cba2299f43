#include "export/tflite/normalization.h"

#include <ATen/ATen.h>

namespace osprey::tflite {

nn::Normalization normalization_of(models::DetectionModel& model, const std::array<int64_t, 2>& canvas) {
  const auto of_pixels = [&](int64_t value) {
    Batch batch;
    batch.images = at::full({1, 3, canvas[0], canvas[1]}, value, at::kByte);
    batch.true_shapes = at::tensor({canvas[0], canvas[1]}, at::kLong).unsqueeze(0);
    return model.preprocess(batch).images.select(3, 0).select(2, 0)[0].to(at::kFloat);
  };
  const at::Tensor offset = of_pixels(0), scale = (of_pixels(255) - offset) / 255;
  nn::Normalization result;
  for (int64_t channel = 0; channel < 3; ++channel) {
    result.offset[static_cast<size_t>(channel)] = offset[channel].item<float>();
    result.scale[static_cast<size_t>(channel)] = scale[channel].item<float>();
  }
  return result;
}

}  // namespace osprey::tflite
