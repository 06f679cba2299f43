#include "losses/formulas.h"
#include "osprey/kernels/class_loss.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// Every class is its own yes-or-no question: sigmoid cross entropy.
class WeightedSigmoid final : public ClassificationLoss {
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    return sigmoid_cross_entropy(logits, targets) * weights;
  }
  at::Tensor compute_summed(const at::Tensor& logits, const ClassTargets& targets) const override {
    if (!kernels::takes_class_loss(logits)) return ClassificationLoss::compute_summed(logits, targets);
    return kernels::sigmoid_focal(logits, targets, {}).loss;
  }
};

std::unique_ptr<ClassificationLoss> make_weighted_sigmoid(
    const config::ConfigNode<proto::WeightedSigmoidClassificationLoss>&) {
  return std::make_unique<WeightedSigmoid>();
}
OSPREY_REGISTER(ClassificationLoss, &make_weighted_sigmoid);

}  // namespace
}  // namespace osprey::losses
