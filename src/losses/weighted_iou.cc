#include "losses/box_overlap.h"
#include "losses/formulas.h"
#include "osprey/losses/localization_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// 1 - intersection over union of decoded boxes. Returned flat, [B * A], as in the original.
/// source  Yu et al., "UnitBox", ACM MM 2016 (which takes the logarithm)
class WeightedIou final : public LocalizationLoss {
 public:
  bool compares_boxes() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& predictions, const at::Tensor& targets,
                     const at::Tensor& weights) const override {
    const BoxOverlap overlap = box_overlap(predictions, targets);
    // Where nothing overlaps the loss is 1 without gradient; the union may be zero there too.
    const at::Tensor iou = divide_or_zero(overlap.intersection, overlap.union_area);
    return ((1 - iou) * anchor_weights(weights)).flatten();
  }
};

std::unique_ptr<LocalizationLoss> make_weighted_iou(const config::ConfigNode<proto::WeightedIOULocalizationLoss>&) {
  return std::make_unique<WeightedIou>();
}
OSPREY_REGISTER(LocalizationLoss, &make_weighted_iou);

}  // namespace
}  // namespace osprey::losses
