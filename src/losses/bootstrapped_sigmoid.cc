#include <fmt/format.h>

#include "losses/formulas.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// Sigmoid cross entropy against a mix of the label and the network's own opinion, for noisy labels.
/// source  Reed et al., "Training Deep Neural Networks on Noisy Labels with Bootstrapping", ICLR 2015, eq. 6 and 7
class BootstrappedSigmoid final : public ClassificationLoss {
 public:
  /// alpha  share of the label in 0..1
  /// hard   the opinion is p > 0.5 instead of p
  BootstrappedSigmoid(double alpha, bool hard) : alpha_(alpha), hard_(hard) {}

 private:
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    const at::Tensor probability = at::sigmoid(logits);
    const at::Tensor opinion = hard_ ? (probability > 0.5).to(logits.scalar_type()) : probability;
    return sigmoid_cross_entropy(logits, targets * alpha_ + opinion * (1 - alpha_)) * weights;
  }

  double alpha_;
  bool hard_;
};

std::unique_ptr<ClassificationLoss> make_bootstrapped_sigmoid(
    const config::ConfigNode<proto::BootstrappedSigmoidClassificationLoss>& cfg) {
  if (!(cfg->alpha() >= 0 && cfg->alpha() <= 1))
    cfg.fail("alpha", fmt::format("must be in 0..1, got {}", cfg->alpha()));
  return std::make_unique<BootstrappedSigmoid>(cfg->alpha(), cfg->hard_bootstrap());
}
OSPREY_REGISTER(ClassificationLoss, &make_bootstrapped_sigmoid);

}  // namespace
}  // namespace osprey::losses
