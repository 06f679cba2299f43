#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "osprey/boxes/anchor_generator.h"

namespace osprey::boxes {

/// Anchors of one feature map: the same few boxes around the centre of every cell.
struct AnchorGridSpec {
  struct AnchorSpec {
    float scale,
        aspect_ratio;  ///< height = base height * scale / sqrt(ratio), width = base width * scale * sqrt(ratio)
  };
  std::vector<AnchorSpec> anchors;  ///< in the order within a cell
  float base_height = 1, base_width = 1;
  float y_stride = 1, x_stride = 1;  ///< between neighbouring centres
  float y_offset = 0, x_offset = 0;  ///< centre of the first cell
};

/// Every scale with every ratio, ratios outside, scales inside.
std::vector<AnchorGridSpec::AnchorSpec> cross(const std::vector<float>& scales,
                                              const std::vector<float>& aspect_ratios);

/// [rows * columns * anchors, 4] float32, in the unit of base size and stride.
at::Tensor anchor_grid(const FeatureMapShape& shape, const AnchorGridSpec& spec);

/// Throws unless the number of feature maps is the configured one.
void check_feature_maps(const std::vector<FeatureMapShape>& shapes, size_t expected);

/// Pixels to fractions of the image; throws where a side is not known, i.e. 1.
at::Tensor normalized(const at::Tensor& anchors_px, int64_t image_height, int64_t image_width);

}  // namespace osprey::boxes
