#include "osprey/boxes/geometry.h"
#include "osprey/protos/region_similarity_calculator.pb.h"
#include "osprey/targets/region_similarity.h"

namespace osprey::targets {
namespace {

/// Minus the squared distance of the corner coordinates.
class NegSqDistSimilarity final : public RegionSimilarity {
 public:
  at::Tensor compare(const at::Tensor& boxes, const at::Tensor& anchors, const at::Tensor&) const override {
    return -osprey::boxes::squared_distance(boxes, anchors);
  }
};

std::unique_ptr<RegionSimilarity> make_neg_sq_dist_similarity(const config::ConfigNode<proto::NegSqDistSimilarity>&) {
  return std::make_unique<NegSqDistSimilarity>();
}
OSPREY_REGISTER(RegionSimilarity, &make_neg_sq_dist_similarity);

}  // namespace
}  // namespace osprey::targets
