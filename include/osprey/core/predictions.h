#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace osprey {

/// What a detector's network says about every anchor.
struct Predictions {
  at::Tensor box_encodings;  ///< [B, A, K] float; K is the box code size (4 unless keypoints are coded)
  /// [B, A, C + 1], background first; [B, A, C] where the model has no background column. float32; in training of the
  /// type of the maps, which may have half the bits.
  at::Tensor class_logits;
  at::Tensor anchors;                                      ///< [A, 4] float32, normalised to the padded canvas
  std::vector<std::array<int64_t, 2>> feature_map_shapes;  ///< height and width of each feature map, finest first
  std::array<int64_t, 2> input_size = {0, 0};              ///< height and width of the padded canvas
};

}  // namespace osprey
