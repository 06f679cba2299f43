#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace osprey::nn {

/// The penalty on one weight: l1 is weight * sum |w|, l2 is weight / 2 * sum w^2.
struct Regularizer {
  enum class Kind { kNone, kL1, kL2 };
  Kind kind = Kind::kNone;
  double weight = 0;
  bool operator==(const Regularizer&) const = default;
};

/// A weight and its penalty.
struct RegularizedWeight {
  at::Tensor weight;
  Regularizer regularizer;
};

/// Sum of the penalties, weight / 2 * sum of squares (l2) and weight * sum of absolute values (l1): a float scalar on
/// the device of the weights; undefined where there is none. No gradient flows through it.
///
/// weights  float32 without holes
/// throws   c10::Error for others
at::Tensor regularization_loss(const std::vector<RegularizedWeight>& weights);

}  // namespace osprey::nn
