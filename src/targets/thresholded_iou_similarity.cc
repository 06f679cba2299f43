#include <ATen/ATen.h>

#include "osprey/boxes/geometry.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/targets/region_similarity.h"

namespace osprey::targets {
namespace {

/// The score of the box where the IoU is > threshold, else 0.
class ThresholdedIouSimilarity final : public RegionSimilarity {
 public:
  explicit ThresholdedIouSimilarity(float threshold) : threshold_(threshold) {}

  at::Tensor compare(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor& scores) const override {
    const at::Tensor overlaps = osprey::boxes::iou(boxes, anchors) > threshold_;
    return scores.defined() ? overlaps * scores.unsqueeze(-1) : overlaps.to(boxes.scalar_type());
  }

 private:
  float threshold_;
};

std::unique_ptr<RegionSimilarity> make_thresholded_iou_similarity(
    const config::ConfigNode<proto::ThresholdedIouSimilarity>& cfg) {
  if (!(cfg->iou_threshold() >= 0 && cfg->iou_threshold() <= 1))
    cfg.fail("iou_threshold", "must be in [0, 1], got " + std::to_string(cfg->iou_threshold()));
  return std::make_unique<ThresholdedIouSimilarity>(cfg->iou_threshold());
}
OSPREY_REGISTER(RegionSimilarity, &make_thresholded_iou_similarity);

}  // namespace
}  // namespace osprey::targets
