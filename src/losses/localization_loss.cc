#include "osprey/losses/localization_loss.h"

#include <ATen/ATen.h>

namespace osprey::losses {

at::Tensor LocalizationLoss::operator()(const at::Tensor& predictions, const at::Tensor& targets,
                                        const at::Tensor& weights) const {
  TORCH_CHECK(predictions.dim() == 3, "box codes must be [B, A, K], got ", predictions.sizes());
  TORCH_CHECK(targets.sizes() == predictions.sizes(), "box targets are ", targets.sizes(), ", predicted codes are ",
              predictions.sizes());
  TORCH_CHECK(weights.sizes() == predictions.sizes() ||
                  (weights.dim() == 2 && weights.sizes() == predictions.sizes().slice(0, 2)),
              "box weights are ", weights.sizes(), ", predicted codes are ", predictions.sizes());
  const auto type = predictions.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor codes = predictions.to(type), wanted = targets.detach().to(type), w = weights.detach().to(type);
  if (const at::Tensor loss = compute_at_once(codes, wanted, w); loss.defined()) return loss;
  // A target that is NaN becomes the prediction itself, without gradient.
  return compute(codes, at::where(wanted.isnan(), codes.detach(), wanted), w);
}

at::Tensor LocalizationLoss::of_boxes(const at::Tensor&, const kernels::MatchedBoxes&, const at::Tensor&) const {
  TORCH_CHECK(false, "this loss wants encoded boxes");
}

at::Tensor LocalizationLoss::compute_at_once(const at::Tensor&, const at::Tensor&, const at::Tensor&) const {
  return {};
}

at::Tensor per_anchor(const at::Tensor& loss, int64_t images, int64_t anchors) {
  if (loss.dim() == 1) return loss.reshape({images, anchors});
  TORCH_CHECK(loss.dim() >= 2 && loss.size(0) == images && loss.size(1) == anchors, "a loss of shape ", loss.sizes(),
              " has no value for each of ", images, " x ", anchors, " anchors");
  return loss.dim() == 2 ? loss : loss.flatten(2).sum(2);
}

}  // namespace osprey::losses
