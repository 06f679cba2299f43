#include "boxes/anchor_grid.h"

#include <ATen/ATen.h>

#include <cmath>

#include "osprey/boxes/geometry.h"

namespace osprey::boxes {

std::vector<AnchorGridSpec::AnchorSpec> cross(const std::vector<float>& scales,
                                              const std::vector<float>& aspect_ratios) {
  std::vector<AnchorGridSpec::AnchorSpec> result;
  for (float ratio : aspect_ratios)
    for (float scale : scales) result.push_back({scale, ratio});
  return result;
}

at::Tensor anchor_grid(const FeatureMapShape& shape, const AnchorGridSpec& spec) {
  const auto [rows, columns] = shape;
  const auto per_cell = static_cast<int64_t>(spec.anchors.size());
  std::vector<float> half_heights, half_widths;
  for (const auto& anchor : spec.anchors) {
    const float root = std::sqrt(anchor.aspect_ratio);
    half_heights.push_back(0.5f * (anchor.scale / root * spec.base_height));
    half_widths.push_back(0.5f * (anchor.scale * root * spec.base_width));
  }
  at::Tensor result = at::empty({rows * columns * per_cell, 4}, at::kFloat);
  float* out = result.data_ptr<float>();
  for (int64_t i = 0; i < rows; ++i) {
    const float y = static_cast<float>(i) * spec.y_stride + spec.y_offset;
    for (int64_t j = 0; j < columns; ++j) {
      const float x = static_cast<float>(j) * spec.x_stride + spec.x_offset;
      for (int64_t k = 0; k < per_cell; ++k) {
        *out++ = y - half_heights[k];
        *out++ = x - half_widths[k];
        *out++ = y + half_heights[k];
        *out++ = x + half_widths[k];
      }
    }
  }
  return result;
}

void check_feature_maps(const std::vector<FeatureMapShape>& shapes, size_t expected) {
  TORCH_CHECK(shapes.size() == expected, "the anchor generator is configured for ", expected,
              " feature maps, the network has ", shapes.size());
}

at::Tensor normalized(const at::Tensor& anchors_px, int64_t image_height, int64_t image_width) {
  TORCH_CHECK(image_height > 1 && image_width > 1, "normalised anchors need the image size, got ", image_height, " x ",
              image_width);
  return scale(anchors_px, 1.0 / static_cast<double>(image_height), 1.0 / static_cast<double>(image_width));
}

}  // namespace osprey::boxes
