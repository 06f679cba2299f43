#include "osprey/nn/weighted_fusion.h"

#include "osprey/nn/activation.h"

namespace osprey::nn {

WeightedFusion::WeightedFusion(FusionMethod method, int64_t maps) : method_(method) {
  if (method != FusionMethod::kSum) weights_ = add_variable("weights", {maps, 1}, Initializer::constant(1));
}

at::Tensor WeightedFusion::forward(const std::vector<at::Tensor>& maps) const {
  at::Tensor sum;
  if (method_ == FusionMethod::kSum) {
    sum = maps[0] + maps[1];
    for (size_t i = 2; i < maps.size(); ++i) sum = sum + maps[i];
    return sum;
  }
  at::Tensor weights = weights_;
  if (method_ == FusionMethod::kAttention) weights = at::softmax(weights_, 1);
  if (method_ == FusionMethod::kFastAttention) {
    const at::Tensor positive = activate(weights_, Activation::kRelu);
    weights = positive / (positive.sum() + 0.0001);
  }
  const std::vector<at::Tensor> each = weights.to(maps[0].scalar_type()).view({-1}).unbind();
  for (size_t i = 0; i < maps.size(); ++i) sum = sum.defined() ? sum + maps[i] * each[i] : maps[i] * each[i];
  return sum;
}

}  // namespace osprey::nn
