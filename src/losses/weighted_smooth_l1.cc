#include <fmt/format.h>

#include "losses/formulas.h"
#include "osprey/losses/localization_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// Huber's loss: d^2 / 2 up to |d| = delta, delta * (|d| - delta / 2) beyond, summed over the codes. [B, A].
/// With delta 1 the smooth L1 of Girshick, "Fast R-CNN", ICCV 2015, eq. 3.
class WeightedSmoothL1 final : public LocalizationLoss {
 public:
  explicit WeightedSmoothL1(double delta) : delta_(delta) {}

  at::Tensor of_boxes(const at::Tensor& predictions, const kernels::MatchedBoxes& targets,
                      const at::Tensor& weights) const override {
    return kernels::encoded_smooth_l1_loss(predictions.to(at::kFloat), targets, weights, delta_);
  }
  bool encodes() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& predictions, const at::Tensor& targets,
                     const at::Tensor& weights) const override {
    return (at::huber_loss(predictions, targets, at::Reduction::None, delta_) * code_weights(weights)).sum(2);
  }
  at::Tensor compute_at_once(const at::Tensor& predictions, const at::Tensor& targets,
                             const at::Tensor& weights) const override {
    if (!kernels::takes_box_loss(predictions, weights)) return {};
    return kernels::smooth_l1_loss(predictions, targets, weights, delta_);
  }

  double delta_;
};

std::unique_ptr<LocalizationLoss> make_weighted_smooth_l1(
    const config::ConfigNode<proto::WeightedSmoothL1LocalizationLoss>& cfg) {
  if (!(cfg->delta() > 0)) cfg.fail("delta", fmt::format("must be > 0, got {}", cfg->delta()));
  return std::make_unique<WeightedSmoothL1>(cfg->delta());
}
OSPREY_REGISTER(LocalizationLoss, &make_weighted_smooth_l1);

}  // namespace
}  // namespace osprey::losses
