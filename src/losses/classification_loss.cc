#include "osprey/losses/classification_loss.h"

#include <ATen/ATen.h>

#include "osprey/kernels/class_loss.h"

namespace osprey::losses {
namespace {

/// The type a loss is computed in.
at::ScalarType type_for(const at::Tensor& logits) {
  TORCH_CHECK(logits.dim() == 3, "logits must be [B, A, C], got ", logits.sizes());
  return logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Targets and weights of `count` anchors or rows of each image that the logits belong to.
void check(const at::Tensor& targets, const at::Tensor& weights, const at::Tensor& logits, int64_t count) {
  const at::IntArrayRef sizes = logits.sizes();
  TORCH_CHECK(targets.sizes() == at::IntArrayRef({sizes[0], count, sizes[2]}), "class targets are ", targets.sizes(),
              ", logits are ", sizes);
  TORCH_CHECK(weights.dim() == 3 && weights.size(0) == sizes[0] && weights.size(1) == count &&
                  (weights.size(2) == sizes[2] || weights.size(2) == 1),
              "class weights are ", weights.sizes(), ", logits are ", sizes);
}

}  // namespace

at::Tensor ClassificationLoss::operator()(const at::Tensor& logits, const at::Tensor& targets,
                                          const at::Tensor& weights) const {
  const at::ScalarType type = type_for(logits);
  check(targets, weights, logits, logits.size(1));
  return compute(logits.to(type), targets.detach().to(type), weights.detach().to(type));
}

at::Tensor ClassificationLoss::summed(const at::Tensor& logits, const ClassTargets& targets) const {
  const at::ScalarType type = type_for(logits);
  TORCH_CHECK(targets.row.sizes() == logits.sizes().slice(0, 2) && targets.row.scalar_type() == at::kLong,
              "rows of anchors are ", targets.row.toString(), " ", targets.row.sizes(), ", logits are ",
              logits.sizes());
  check(targets.rows, targets.weights, logits, targets.rows.dim() == 3 ? targets.rows.size(1) : 0);
  return compute_summed(kernels::takes_class_loss(logits) ? logits : logits.to(type),
                        {targets.rows.detach().to(type), targets.weights.detach().to(type), targets.row});
}

at::Tensor ClassificationLoss::compute_summed(const at::Tensor& logits, const ClassTargets& targets) const {
  const at::Tensor losses = compute(logits.to(type_for(logits)), targets.of_anchors(), targets.weights_of_anchors());
  return losses.dim() == 3 ? losses.sum(2) : losses;
}

}  // namespace osprey::losses
