#include <fmt/format.h>

#include "losses/formulas.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// Focal loss over a heat map: where the target is exactly 1, (1-p)^alpha log p, elsewhere (1-z)^beta p^alpha log(1-p),
/// so that a near miss costs little.
///
/// source  Zhou et al., "Objects as Points", 2019, eq. 1
class PenaltyReducedLogisticFocal final : public ClassificationLoss {
 public:
  PenaltyReducedLogisticFocal(double alpha, double beta) : alpha_(alpha), beta_(beta) {}

 private:
  static constexpr double kClip = 1e-4;  // keeps the logarithms finite; no gradient beyond

  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    const at::Tensor p = at::sigmoid(logits).clamp(kClip, 1 - kClip);
    const at::Tensor positive = (1 - p).pow(alpha_) * p.log();
    const at::Tensor negative = (1 - targets).pow(beta_) * p.pow(alpha_) * (1 - p).log();
    return -at::where(targets == 1, positive, negative) * weights;
  }

  double alpha_, beta_;
};

std::unique_ptr<ClassificationLoss> make_penalty_reduced_logistic_focal(
    const config::ConfigNode<proto::PenaltyReducedLogisticFocalLoss>& cfg) {
  if (!(cfg->alpha() >= 0)) cfg.fail("alpha", fmt::format("must be >= 0, got {}", cfg->alpha()));
  if (!(cfg->beta() >= 0)) cfg.fail("beta", fmt::format("must be >= 0, got {}", cfg->beta()));
  return std::make_unique<PenaltyReducedLogisticFocal>(cfg->alpha(), cfg->beta());
}
OSPREY_REGISTER(ClassificationLoss, &make_penalty_reduced_logistic_focal);

}  // namespace
}  // namespace osprey::losses
