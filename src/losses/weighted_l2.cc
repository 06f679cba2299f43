#include "losses/formulas.h"
#include "osprey/losses/localization_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// Half the squared length of the weighted difference: the weight counts squared, as in the original. [B, A].
class WeightedL2 final : public LocalizationLoss {
  at::Tensor compute(const at::Tensor& predictions, const at::Tensor& targets,
                     const at::Tensor& weights) const override {
    return 0.5 * ((predictions - targets) * code_weights(weights)).square().sum(2);
  }
};

std::unique_ptr<LocalizationLoss> make_weighted_l2(const config::ConfigNode<proto::WeightedL2LocalizationLoss>&) {
  return std::make_unique<WeightedL2>();
}
OSPREY_REGISTER(LocalizationLoss, &make_weighted_l2);

}  // namespace
}  // namespace osprey::losses
