#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/core/targets.h"
#include "osprey/kernels/code_scales.h"

namespace osprey::kernels {

/// The real boxes of a batch, padded to M per image.
struct LabeledBoxes {
  at::Tensor boxes;    ///< [B, M, 4] float32, in the coordinates of the anchors
  at::Tensor labels;   ///< [B, M, C] float32: what the classes of an anchor of this box should be
  at::Tensor weights;  ///< [B, M] float32, of an anchor of this box in both losses
};

/// What anchors without a box are compared with.
struct Background {
  bool in_first_column = false;  ///< whether column 0 of the classes says "background", or all are zero
  float weight = 1;              ///< in the classification loss; ignored anchors have weight 0
};

/// What the losses compare the predictions of matched anchors with: a row of classes and weights for each box, for
/// background and for what is ignored, and for each anchor its row, its box as a code (zeros where it has none) and the
/// weight of that.
///
/// match    [B, A] int64: index into the M boxes, Match::kBackground or Match::kIgnore; others are refused on a CPU
/// anchors  [A, 4] float32
/// scales   of the codes, see kernels/box_codes.h; null: `boxes` of the result stays undefined, for another coder or a
///          loss that encodes
/// throws   c10::Error when shapes or types disagree
/// operator osprey::assign_targets
Targets assign_targets(const LabeledBoxes& truth, const at::Tensor& match, const at::Tensor& anchors,
                       const CodeScales* scales, const Background& background);

}  // namespace osprey::kernels
