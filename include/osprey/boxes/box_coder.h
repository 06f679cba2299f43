#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osprey/config/registry.h"
#include "osprey/kernels/code_scales.h"

namespace osprey::boxes {

/// Boxes as offsets from anchors, the form in which a detector predicts them.
///
/// All tensors are float and share type and device; leading dimensions broadcast, gradients flow, no anchors give an
/// empty result. Build one with `build_box_coder` (boxes/builder.h).
class BoxCoder {
 public:
  using Registry = config::Registry<BoxCoder>;
  virtual ~BoxCoder() = default;

  /// K, the number of values that code a box.
  virtual int64_t code_size() const = 0;
  /// How many keypoints are coded beside the box; 0 for most coders.
  virtual int64_t num_keypoints() const { return 0; }

  /// boxes [..., A, 4], anchors [A, 4] -> [..., A, K]; finite for boxes without area
  /// keypoints  [..., A, num_keypoints, 2] (y, x) where num_keypoints > 0; not looked at otherwise
  /// throws     c10::Error when shapes disagree or keypoints are missing
  virtual at::Tensor encode(const at::Tensor& boxes, const at::Tensor& anchors,
                            const at::Tensor& keypoints = {}) const = 0;

  /// The code of each anchor's own box, zeros where it has none.
  /// boxes [B, M, 4], match [B, A] int64 (an index into the boxes, or below 0), anchors [A, 4] -> [B, A, K]
  /// keypoints  [B, M, num_keypoints, 2] where num_keypoints > 0
  at::Tensor encode_matched(const at::Tensor& boxes, const at::Tensor& match, const at::Tensor& anchors,
                            const at::Tensor& keypoints = {}) const;

  /// Set where the codes are those of kernels/box_codes.h, so that kernels make them: their scales.
  virtual const kernels::CodeScales* center_size_scales() const { return nullptr; }

  /// codes [..., A, K], anchors [A, 4] -> boxes [..., A, 4]
  virtual at::Tensor decode(const at::Tensor& codes, const at::Tensor& anchors) const = 0;

  /// codes [..., A, K], anchors [A, 4] -> [..., A, num_keypoints, 2]; throws c10::Error where none are coded
  virtual at::Tensor decode_keypoints(const at::Tensor& codes, const at::Tensor& anchors) const;
};

}  // namespace osprey::boxes
