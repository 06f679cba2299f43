#include <fmt/format.h>

#include "losses/formulas.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// Softmax cross entropy whose targets are logits too, those of a teacher; both are divided by `logit_scale`. [B, A].
/// source  Hinton et al., "Distilling the Knowledge in a Neural Network", 2015, eq. 1
class WeightedLogitsSoftmax final : public ClassificationLoss {
 public:
  explicit WeightedLogitsSoftmax(double logit_scale) : logit_scale_(logit_scale) {}

 private:
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    const at::Tensor wanted = at::softmax(targets / logit_scale_, 2);
    return softmax_cross_entropy(logits / logit_scale_, wanted) * mean_class_weight(weights);
  }

  double logit_scale_;
};

std::unique_ptr<ClassificationLoss> make_weighted_logits_softmax(
    const config::ConfigNode<proto::WeightedSoftmaxClassificationAgainstLogitsLoss>& cfg) {
  if (!(cfg->logit_scale() > 0)) cfg.fail("logit_scale", fmt::format("must be > 0, got {}", cfg->logit_scale()));
  return std::make_unique<WeightedLogitsSoftmax>(cfg->logit_scale());
}
OSPREY_REGISTER(ClassificationLoss, &make_weighted_logits_softmax);

}  // namespace
}  // namespace osprey::losses
