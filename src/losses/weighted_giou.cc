#include "losses/box_overlap.h"
#include "losses/formulas.h"
#include "osprey/losses/localization_loss.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

/// 1 - generalised intersection over union of decoded boxes: boxes that lie apart are still pulled together. [B, A].
/// source  Rezatofighi et al., "Generalized Intersection over Union", CVPR 2019, algorithm 2
class WeightedGiou final : public LocalizationLoss {
 public:
  bool compares_boxes() const override { return true; }

 private:
  at::Tensor compute(const at::Tensor& predictions, const at::Tensor& targets,
                     const at::Tensor& weights) const override {
    const BoxOverlap overlap = box_overlap(predictions, targets);
    const at::Tensor iou = divide_or_zero(overlap.intersection, overlap.union_area);
    const at::Tensor giou = iou - divide_or_zero(overlap.enclosing - overlap.union_area, overlap.enclosing);
    // Flipped corners enclose no area: 0 there, as in the original.
    return (1 - giou.masked_fill(overlap.enclosing <= 0, 0)) * anchor_weights(weights);
  }
  at::Tensor compute_at_once(const at::Tensor& predictions, const at::Tensor& targets,
                             const at::Tensor& weights) const override {
    if (!kernels::takes_box_loss(predictions, weights)) return {};
    return kernels::giou_loss(predictions, targets, weights);
  }
};

std::unique_ptr<LocalizationLoss> make_weighted_giou(const config::ConfigNode<proto::WeightedGIOULocalizationLoss>&) {
  return std::make_unique<WeightedGiou>();
}
OSPREY_REGISTER(LocalizationLoss, &make_weighted_giou);

}  // namespace
}  // namespace osprey::losses
