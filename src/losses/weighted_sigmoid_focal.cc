#include <fmt/format.h>

#include <limits>

#include "losses/formulas.h"
#include "osprey/kernels/class_loss.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// balance * miss^gamma * cross entropy, where miss = 1 - p_t: easy background counts for little.
/// source  Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, eq. 5
class SigmoidFocal final : public ClassificationLoss {
 public:
  /// alpha  weight of the positive class, 1 - alpha that of the negative one; none: both count 1
  SigmoidFocal(double gamma, std::optional<double> alpha) : gamma_(gamma), alpha_(alpha) {}

 private:
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    at::Tensor loss = sigmoid_cross_entropy(logits, targets) * weights;
    if (gamma_ != 0) {
      // 1 - p_t, written so that neither term loses its digits where p is close to 1.
      const at::Tensor miss = targets * at::sigmoid(-logits) + (1 - targets) * at::sigmoid(logits);
      // For gamma < 1 the slope of the power is infinite at zero: the clamp keeps it out of the gradient.
      loss = loss * miss.clamp_min(std::numeric_limits<float>::min()).pow(gamma_);
    }
    return alpha_ ? loss * (targets * *alpha_ + (1 - targets) * (1 - *alpha_)) : loss;
  }

  at::Tensor compute_summed(const at::Tensor& logits, const ClassTargets& targets) const override {
    if (!kernels::takes_class_loss(logits)) return ClassificationLoss::compute_summed(logits, targets);
    return kernels::sigmoid_focal(logits, targets, {gamma_, alpha_}).loss;
  }

  double gamma_;
  std::optional<double> alpha_;
};

std::unique_ptr<ClassificationLoss> make_weighted_sigmoid_focal(
    const config::ConfigNode<proto::SigmoidFocalClassificationLoss>& cfg) {
  if (!(cfg->gamma() >= 0)) cfg.fail("gamma", fmt::format("must be >= 0, got {}", cfg->gamma()));
  if (!(cfg->alpha() >= 0 && cfg->alpha() <= 1))
    cfg.fail("alpha", fmt::format("must be in 0..1, got {}", cfg->alpha()));
  return std::make_unique<SigmoidFocal>(cfg->gamma(),
                                        cfg->has_alpha() ? std::optional<double>(cfg->alpha()) : std::nullopt);
}
OSPREY_REGISTER(ClassificationLoss, &make_weighted_sigmoid_focal);

}  // namespace
}  // namespace osprey::losses
