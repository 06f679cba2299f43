#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/config/registry.h"

namespace osprey::targets {

/// How alike each real box and each anchor are; larger is more alike. Build one with `build_region_similarity`
/// (targets/builder.h).
class RegionSimilarity {
 public:
  using Registry = config::Registry<RegionSimilarity>;
  virtual ~RegionSimilarity() = default;

  /// boxes    [..., M, 4] float
  /// anchors  [A, 4] float
  /// scores   [..., M] float, how sure it is that each box is an object, which only the thresholded IoU uses;
  ///          undefined: 1
  /// returns  [..., M, A]; no gradients are needed
  virtual at::Tensor compare(const at::Tensor& boxes, const at::Tensor& anchors,
                             const at::Tensor& scores = {}) const = 0;

  /// Whether `compare` is the plain IoU, for which the assigner has a path without the M x A matrix.
  virtual bool is_iou() const { return false; }
};

}  // namespace osprey::targets
