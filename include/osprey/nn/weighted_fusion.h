#pragma once
#include <string>
#include <vector>

#include "osprey/nn/layer.h"

namespace osprey::nn {

enum class FusionMethod {
  kSum,            ///< no weights
  kWeightedSum,    ///< weights as they are
  kAttention,      ///< as the original computes it: its softmax runs over a single value, so every weight counts as 1
  kFastAttention,  ///< relu(w) / (sum of relu(w) + 0.0001)
};

/// One map out of several of the same shape.
///
/// Variable: weights [number of maps, 1], except for kSum.
/// source  Tan et al., "EfficientDet: Scalable and Efficient Object Detection", CVPR 2020, section 3.3
class WeightedFusion : public Layer {
 public:
  WeightedFusion(FusionMethod method, int64_t maps);

  /// maps  each [B, C, H, W]
  at::Tensor forward(const std::vector<at::Tensor>& maps) const;

 private:
  FusionMethod method_;
  at::Tensor weights_;
};

}  // namespace osprey::nn
