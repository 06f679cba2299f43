#include "osprey/boxes/geometry.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/targets/region_similarity.h"

namespace osprey::targets {
namespace {

/// Intersection over union.
class IouSimilarity final : public RegionSimilarity {
 public:
  at::Tensor compare(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor&) const override {
    return osprey::boxes::iou(boxes, anchors);
  }
  bool is_iou() const override { return true; }
};

std::unique_ptr<RegionSimilarity> make_iou_similarity(const config::ConfigNode<proto::IouSimilarity>&) {
  return std::make_unique<IouSimilarity>();
}
OSPREY_REGISTER(RegionSimilarity, &make_iou_similarity);

}  // namespace
}  // namespace osprey::targets
