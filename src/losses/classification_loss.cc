#include "osprey/losses/classification_loss.h"

#include <ATen/ATen.h>

namespace osprey::losses {

at::Tensor ClassificationLoss::operator()(const at::Tensor& logits, const at::Tensor& targets,
                                          const at::Tensor& weights) const {
  TORCH_CHECK(logits.dim() == 3, "logits must be [B, A, C], got ", logits.sizes());
  TORCH_CHECK(targets.sizes() == logits.sizes(), "class targets are ", targets.sizes(), ", logits are ",
              logits.sizes());
  TORCH_CHECK(weights.dim() == 3 && weights.size(0) == logits.size(0) && weights.size(1) == logits.size(1) &&
                  (weights.size(2) == logits.size(2) || weights.size(2) == 1),
              "class weights are ", weights.sizes(), ", logits are ", logits.sizes());
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return compute(logits.to(type), targets.detach().to(type), weights.detach().to(type));
}

}  // namespace osprey::losses
