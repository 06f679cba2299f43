#include "export/normalization.h"

#include <ATen/ATen.h>

#include <cmath>

namespace osprey {

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

std::optional<int64_t> pixel_of_zero(const nn::Normalization& normalization) {
  constexpr float kRounding = 1e-3f;  // of what is half of a pixel
  const auto& [scales, offsets] = normalization;
  for (const size_t channel : {1, 2})
    if (scales[channel] != scales[0] || offsets[channel] != offsets[0]) return std::nullopt;
  const float zero = std::floor(-offsets[0] / scales[0] + 0.5f + kRounding);
  if (!(zero >= 0 && zero <= 255)) return std::nullopt;
  return static_cast<int64_t>(zero);
}

}  // namespace osprey
