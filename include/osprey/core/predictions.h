#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace osprey {

/// What a detector's network says about every anchor.
struct Predictions {
  at::Tensor box_encodings;  ///< [B, A, K] float; K is the box code size (4 unless keypoints are coded)
  at::Tensor
      class_logits;    ///< [B, A, C + 1] float, background first; [B, A, C] where the model has no background column
  at::Tensor anchors;  ///< [A, 4] float32, normalised to the padded canvas
  std::vector<std::array<int64_t, 2>> feature_map_shapes;  ///< height and width of each feature map, finest first
};

}  // namespace osprey
