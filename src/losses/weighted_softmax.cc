#include <fmt/format.h>

#include "losses/formulas.h"
#include "osprey/kernels/class_loss.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// The classes exclude each other: softmax cross entropy of logits / logit_scale. [B, A].
class WeightedSoftmax final : public ClassificationLoss {
 public:
  explicit WeightedSoftmax(double logit_scale) : logit_scale_(logit_scale) {}

 private:
  at::Tensor compute_summed(const at::Tensor& logits, const ClassTargets& targets) const override {
    if (!kernels::takes_class_loss(logits)) return ClassificationLoss::compute_summed(logits, targets);
    return kernels::softmax_cross_entropy(logits, targets, logit_scale_).loss;
  }
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    return softmax_cross_entropy(logits / logit_scale_, targets) * mean_class_weight(weights);
  }

  double logit_scale_;
};

std::unique_ptr<ClassificationLoss> make_weighted_softmax(
    const config::ConfigNode<proto::WeightedSoftmaxClassificationLoss>& cfg) {
  if (!(cfg->logit_scale() > 0)) cfg.fail("logit_scale", fmt::format("must be > 0, got {}", cfg->logit_scale()));
  return std::make_unique<WeightedSoftmax>(cfg->logit_scale());
}
OSPREY_REGISTER(ClassificationLoss, &make_weighted_softmax);

}  // namespace
}  // namespace osprey::losses
