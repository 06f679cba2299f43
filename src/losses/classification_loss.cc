#include "osprey/losses/classification_loss.h"

#include <ATen/ATen.h>

namespace osprey::losses {
namespace {

/// The arguments in one float type, and checked.
struct Arguments {
  Arguments(const at::Tensor& all_logits, const at::Tensor& all_targets, const at::Tensor& all_weights) {
    TORCH_CHECK(all_logits.dim() == 3, "logits must be [B, A, C], got ", all_logits.sizes());
    TORCH_CHECK(all_targets.sizes() == all_logits.sizes(), "class targets are ", all_targets.sizes(), ", logits are ",
                all_logits.sizes());
    TORCH_CHECK(all_weights.dim() == 3 && all_weights.size(0) == all_logits.size(0) &&
                    all_weights.size(1) == all_logits.size(1) &&
                    (all_weights.size(2) == all_logits.size(2) || all_weights.size(2) == 1),
                "class weights are ", all_weights.sizes(), ", logits are ", all_logits.sizes());
    const auto type = all_logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    logits = all_logits.to(type);
    targets = all_targets.detach().to(type);
    weights = all_weights.detach().to(type);
  }
  at::Tensor logits, targets, weights;
};

}  // namespace

at::Tensor ClassificationLoss::operator()(const at::Tensor& logits, const at::Tensor& targets,
                                          const at::Tensor& weights) const {
  const Arguments given(logits, targets, weights);
  return compute(given.logits, given.targets, given.weights);
}

at::Tensor ClassificationLoss::summed(const at::Tensor& logits, const at::Tensor& targets,
                                      const at::Tensor& weights) const {
  const Arguments given(logits, targets, weights);
  return compute_summed(given.logits, given.targets, given.weights);
}

at::Tensor ClassificationLoss::compute_summed(const at::Tensor& logits, const at::Tensor& targets,
                                              const at::Tensor& weights) const {
  at::Tensor losses = compute(logits, targets, weights);
  return losses.dim() == 3 ? losses.sum(2) : losses;
}

}  // namespace osprey::losses
