#include "losses/formulas.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// One minus the Dice coefficient of probabilities and targets over all anchors of an image, per class: [B, C].
/// Weights multiply both sides before they meet. Sides of a common size below one count as of size one, as in
/// TensorFlow, so that a class without any weight has a loss of one, without slope.
/// source  Milletari et al., "V-Net", 2016, section 3
class WeightedDice final : public ClassificationLoss {
 public:
  /// squared  probabilities and targets are squared first, everywhere; the paper squares in the denominator only
  explicit WeightedDice(bool squared) : squared_(squared) {}

 private:
  at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const override {
    at::Tensor p = at::sigmoid(logits), z = targets;
    if (squared_) {
      p = p * p;
      z = z * z;
    }
    p = p * weights;
    z = z * weights;
    const at::Tensor overlap = 2 * (p * z).sum(1), size = p.sum(1) + z.sum(1);
    return 1 - overlap / size.clamp_min(1);
  }

  bool squared_;
};

std::unique_ptr<ClassificationLoss> make_weighted_dice(
    const config::ConfigNode<proto::WeightedDiceClassificationLoss>& cfg) {
  return std::make_unique<WeightedDice>(cfg->squared_normalization());
}
OSPREY_REGISTER(ClassificationLoss, &make_weighted_dice);

}  // namespace
}  // namespace osprey::losses
