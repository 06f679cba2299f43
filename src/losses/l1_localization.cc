#include "losses/formulas.h"
#include "osprey/losses/localization_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// The absolute difference of each code: [B, A, K], not summed.
class L1 final : public LocalizationLoss {
  at::Tensor compute(const at::Tensor& predictions, const at::Tensor& targets,
                     const at::Tensor& weights) const override {
    return (predictions - targets).abs() * code_weights(weights);
  }
};

std::unique_ptr<LocalizationLoss> make_l1_localization(const config::ConfigNode<proto::L1LocalizationLoss>&) {
  return std::make_unique<L1>();
}
OSPREY_REGISTER(LocalizationLoss, &make_l1_localization);

}  // namespace
}  // namespace osprey::losses
