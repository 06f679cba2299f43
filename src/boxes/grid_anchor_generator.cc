#include "boxes/anchor_checks.h"
#include "boxes/anchor_grid.h"
#include "osprey/boxes/anchor_generator.h"
#include "osprey/protos/grid_anchor_generator.pb.h"

namespace osprey::boxes {
namespace {

/// One feature map, in pixels.
class GridAnchorGenerator final : public AnchorGenerator {
 public:
  explicit GridAnchorGenerator(AnchorGridSpec spec) : spec_(std::move(spec)) {}

  std::vector<int64_t> num_anchors_per_location() const override {
    return {static_cast<int64_t>(spec_.anchors.size())};
  }
  at::Tensor generate(const std::vector<FeatureMapShape>& shapes, int64_t, int64_t) const override {
    check_feature_maps(shapes, 1);
    return anchor_grid(shapes[0], spec_);
  }

 private:
  AnchorGridSpec spec_;
};

std::unique_ptr<AnchorGenerator> make_grid_anchor_generator(const config::ConfigNode<proto::GridAnchorGenerator>& cfg) {
  AnchorGridSpec spec;
  spec.anchors =
      cross(positive_list(cfg, "scales", cfg->scales()), positive_list(cfg, "aspect_ratios", cfg->aspect_ratios()));
  spec.base_height = at_least_one(cfg, "height", cfg->height());
  spec.base_width = at_least_one(cfg, "width", cfg->width());
  spec.y_stride = at_least_one(cfg, "height_stride", cfg->height_stride());
  spec.x_stride = at_least_one(cfg, "width_stride", cfg->width_stride());
  spec.y_offset = static_cast<float>(cfg->height_offset());
  spec.x_offset = static_cast<float>(cfg->width_offset());
  return std::make_unique<GridAnchorGenerator>(std::move(spec));
}
OSPREY_REGISTER(AnchorGenerator, &make_grid_anchor_generator);

}  // namespace
}  // namespace osprey::boxes
