#include <ATen/ATen.h>

#include <cmath>

#include "boxes/anchor_checks.h"
#include "boxes/anchor_grid.h"
#include "osprey/boxes/anchor_generator.h"
#include "osprey/protos/multiscale_anchor_generator.pb.h"

namespace osprey::boxes {
namespace {

struct MultiscaleOptions {
  int64_t min_level, max_level;
  double anchor_scale;
  std::vector<float> scales;  ///< 2^(i / scales_per_octave)
  std::vector<float> aspect_ratios;
  bool normalize_coordinates;
};

/// Anchors of a feature pyramid: level l has stride 2^l and anchors of anchor_scale * 2^l pixels.
/// Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, section 4.
class MultiscaleAnchorGenerator final : public AnchorGenerator {
 public:
  explicit MultiscaleAnchorGenerator(MultiscaleOptions options) : options_(std::move(options)) {}

  std::vector<int64_t> num_anchors_per_location() const override {
    return std::vector<int64_t>(num_levels(),
                                static_cast<int64_t>(options_.scales.size() * options_.aspect_ratios.size()));
  }

  at::Tensor generate(const std::vector<FeatureMapShape>& shapes, int64_t image_height,
                      int64_t image_width) const override {
    return generate(shapes, image_height, image_width, /*any_size=*/false);
  }
  /// Centres always lie in the middle of the cells.
  at::Tensor generate_for_any_size(const std::vector<FeatureMapShape>& shapes, int64_t image_height,
                                   int64_t image_width) const override {
    return generate(shapes, image_height, image_width, /*any_size=*/true);
  }

 private:
  at::Tensor generate(const std::vector<FeatureMapShape>& shapes, int64_t image_height, int64_t image_width,
                      bool any_size) const {
    check_feature_maps(shapes, num_levels());
    std::vector<at::Tensor> grids;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int64_t stride = int64_t{1} << (options_.min_level + static_cast<int64_t>(i));
      AnchorGridSpec spec;
      spec.anchors = cross(options_.scales, options_.aspect_ratios);
      spec.base_height = spec.base_width = static_cast<float>(static_cast<double>(stride) * options_.anchor_scale);
      spec.y_stride = spec.x_stride = static_cast<float>(stride);
      spec.y_offset = offset(stride, any_size ? stride : image_height);
      spec.x_offset = offset(stride, any_size ? stride : image_width);
      grids.push_back(anchor_grid(shapes[i], spec));
    }
    const at::Tensor anchors_px = at::cat(grids);
    return options_.normalize_coordinates ? normalized(anchors_px, image_height, image_width) : anchors_px;
  }

  size_t num_levels() const { return static_cast<size_t>(options_.max_level - options_.min_level + 1); }

  /// Centres lie in the middle of the cells only where the cells divide the image evenly; otherwise the original puts
  /// them on the corners. Trained checkpoints depend on it.
  static float offset(int64_t stride, int64_t image_side) {
    return image_side % stride == 0 || image_side == 1 ? static_cast<float>(stride) / 2 : 0.0f;
  }

  MultiscaleOptions options_;
};

std::unique_ptr<AnchorGenerator> make_multiscale_anchor_generator(
    const config::ConfigNode<proto::MultiscaleAnchorGenerator>& cfg) {
  if (cfg->min_level() < 0) cfg.fail("min_level", "must be >= 0, got " + std::to_string(cfg->min_level()));
  if (cfg->max_level() < cfg->min_level() || cfg->max_level() > 30)
    cfg.fail("max_level", "must be in [min_level, 30], got " + std::to_string(cfg->max_level()));
  if (!(cfg->anchor_scale() > 0)) cfg.fail("anchor_scale", "must be > 0, got " + std::to_string(cfg->anchor_scale()));
  if (cfg->scales_per_octave() < 1)
    cfg.fail("scales_per_octave", "must be >= 1, got " + std::to_string(cfg->scales_per_octave()));
  MultiscaleOptions options{cfg->min_level(),
                            cfg->max_level(),
                            cfg->anchor_scale(),
                            {},
                            positive_list(cfg, "aspect_ratios", cfg->aspect_ratios()),
                            cfg->normalize_coordinates()};
  for (int i = 0; i < cfg->scales_per_octave(); ++i)
    options.scales.push_back(static_cast<float>(std::exp2(static_cast<double>(i) / cfg->scales_per_octave())));
  return std::make_unique<MultiscaleAnchorGenerator>(std::move(options));
}
OSPREY_REGISTER(AnchorGenerator, &make_multiscale_anchor_generator);

}  // namespace
}  // namespace osprey::boxes
