#include <ATen/ATen.h>

#include "boxes/anchor_checks.h"
#include "boxes/anchor_grid.h"
#include "osprey/boxes/anchor_generator.h"
#include "osprey/protos/flexible_grid_anchor_generator.pb.h"

namespace osprey::boxes {
namespace {

/// A list of sizes and ratios, paired one to one, for each feature map; sizes, strides and offsets in pixels.
class FlexibleGridAnchorGenerator final : public AnchorGenerator {
 public:
  FlexibleGridAnchorGenerator(std::vector<AnchorGridSpec> grids, bool normalize_coordinates)
      : grids_(std::move(grids)), normalize_coordinates_(normalize_coordinates) {}

  std::vector<int64_t> num_anchors_per_location() const override {
    std::vector<int64_t> result;
    for (const auto& grid : grids_) result.push_back(static_cast<int64_t>(grid.anchors.size()));
    return result;
  }

  at::Tensor generate(const std::vector<FeatureMapShape>& shapes, int64_t image_height,
                      int64_t image_width) const override {
    check_feature_maps(shapes, grids_.size());
    std::vector<at::Tensor> anchors;
    for (size_t i = 0; i < shapes.size(); ++i) anchors.push_back(anchor_grid(shapes[i], grids_[i]));
    const at::Tensor anchors_px = at::cat(anchors);
    return normalize_coordinates_ ? normalized(anchors_px, image_height, image_width) : anchors_px;
  }

 private:
  std::vector<AnchorGridSpec> grids_;
  bool normalize_coordinates_;
};

AnchorGridSpec grid_spec(const config::ConfigNode<proto::AnchorGrid>& cfg) {
  const auto sizes = positive_list(cfg, "base_sizes", cfg->base_sizes());
  const auto ratios = positive_list(cfg, "aspect_ratios", cfg->aspect_ratios());
  if (sizes.size() != ratios.size()) cfg.fail("aspect_ratios", "must have as many values as base_sizes");
  AnchorGridSpec spec;
  for (size_t i = 0; i < sizes.size(); ++i) spec.anchors.push_back({sizes[i], ratios[i]});
  spec.y_stride = at_least_one(cfg, "height_stride", cfg->height_stride());
  spec.x_stride = at_least_one(cfg, "width_stride", cfg->width_stride());
  spec.y_offset = static_cast<float>(cfg->height_offset());
  spec.x_offset = static_cast<float>(cfg->width_offset());
  return spec;
}

std::unique_ptr<AnchorGenerator> make_flexible_grid_anchor_generator(
    const config::ConfigNode<proto::FlexibleGridAnchorGenerator>& cfg) {
  if (cfg->anchor_grid().empty()) cfg.fail("anchor_grid", "must name at least one grid");
  std::vector<AnchorGridSpec> grids;
  for (int i = 0; i < cfg->anchor_grid_size(); ++i)
    grids.push_back(grid_spec(cfg.child("anchor_grid", i, cfg->anchor_grid(i))));
  return std::make_unique<FlexibleGridAnchorGenerator>(std::move(grids), cfg->normalize_coordinates());
}
OSPREY_REGISTER(AnchorGenerator, &make_flexible_grid_anchor_generator);

}  // namespace
}  // namespace osprey::boxes
