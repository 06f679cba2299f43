#include "osprey/boxes/geometry.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/targets/region_similarity.h"

namespace osprey::targets {
namespace {

/// Intersection over the area of the anchor.
class IoaSimilarity final : public RegionSimilarity {
 public:
  at::Tensor compare(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor&) const override {
    return osprey::boxes::ioa(boxes, anchors);
  }
};

std::unique_ptr<RegionSimilarity> make_ioa_similarity(const config::ConfigNode<proto::IoaSimilarity>&) {
  return std::make_unique<IoaSimilarity>();
}
OSPREY_REGISTER(RegionSimilarity, &make_ioa_similarity);

}  // namespace
}  // namespace osprey::targets
