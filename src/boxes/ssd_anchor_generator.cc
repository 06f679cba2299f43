#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "boxes/anchor_checks.h"
#include "boxes/anchor_grid.h"
#include "osprey/boxes/anchor_generator.h"
#include "osprey/protos/ssd_anchor_generator.pb.h"

namespace osprey::boxes {
namespace {

struct SsdAnchorOptions {
  std::vector<std::vector<AnchorGridSpec::AnchorSpec>> layers;
  float base_height = 1, base_width = 1;
  std::vector<std::array<float, 2>> strides_px, offsets_px;  ///< empty: 1 / cells, and half a stride
};

/// Anchors as fractions of the image, with a scale per feature map.
/// Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016, section 2.2, in the variant of the TF Object Detection
/// API.
class SsdAnchorGenerator final : public AnchorGenerator {
 public:
  explicit SsdAnchorGenerator(SsdAnchorOptions options) : options_(std::move(options)) {}

  std::vector<int64_t> num_anchors_per_location() const override {
    std::vector<int64_t> result;
    for (const auto& layer : options_.layers) result.push_back(static_cast<int64_t>(layer.size()));
    return result;
  }

  at::Tensor generate(const std::vector<FeatureMapShape>& shapes, int64_t image_height,
                      int64_t image_width) const override {
    check_feature_maps(shapes, options_.layers.size());
    TORCH_CHECK(image_height > 0 && image_width > 0, "image size must be positive, got ", image_height, " x ",
                image_width);
    const auto height = static_cast<float>(image_height), width = static_cast<float>(image_width);
    const float shorter = std::min(height, width);
    std::vector<at::Tensor> grids;
    for (size_t i = 0; i < shapes.size(); ++i) {
      AnchorGridSpec spec;
      spec.anchors = options_.layers[i];
      spec.base_height = shorter / height * options_.base_height;  // a square anchor is square in pixels
      spec.base_width = shorter / width * options_.base_width;
      spec.y_stride =
          options_.strides_px.empty() ? 1.0f / static_cast<float>(shapes[i][0]) : options_.strides_px[i][0] / height;
      spec.x_stride =
          options_.strides_px.empty() ? 1.0f / static_cast<float>(shapes[i][1]) : options_.strides_px[i][1] / width;
      spec.y_offset = options_.offsets_px.empty() ? 0.5f * spec.y_stride : options_.offsets_px[i][0] / height;
      spec.x_offset = options_.offsets_px.empty() ? 0.5f * spec.x_stride : options_.offsets_px[i][1] / width;
      grids.push_back(anchor_grid(shapes[i], spec));
    }
    return at::cat(grids);
  }

 private:
  SsdAnchorOptions options_;
};

/// The scale of each layer, then one that only serves to interpolate after the last: 1, or the next that is given.
std::vector<double> layer_scales(const config::ConfigNode<proto::SsdAnchorGenerator>& cfg) {
  std::vector<double> scales(cfg->scales().begin(), cfg->scales().end());
  const int num_layers = cfg->num_layers();
  if (scales.empty()) {
    const double first = cfg->min_scale(), last = cfg->max_scale();
    if (!(first > 0)) cfg.fail("min_scale", "must be > 0, got " + std::to_string(first));
    if (!(last > 0)) cfg.fail("max_scale", "must be > 0, got " + std::to_string(last));
    for (int i = 0; i < num_layers; ++i)
      scales.push_back(num_layers == 1 ? first : first + (last - first) * i / (num_layers - 1));
  } else {
    positive_list(cfg, "scales", cfg->scales());
    if (static_cast<int>(scales.size()) < num_layers) cfg.fail("scales", "must have at least num_layers values");
  }
  scales.push_back(1.0);
  return scales;
}

/// Strides or offsets as (y, x) pairs; empty where the config has none for y: the original does not look at x then.
template <class Repeated>
std::vector<std::array<float, 2>> pairs(const config::ConfigNode<proto::SsdAnchorGenerator>& cfg, const char* y_field,
                                        const Repeated& y, const char* x_field, const Repeated& x, int smallest) {
  if (y.empty()) return {};
  const auto check = [&](const char* field, const Repeated& values) {
    if (values.size() != cfg->num_layers()) cfg.fail(field, "must have num_layers values");
    for (int value : values)
      if (value < smallest)
        cfg.fail(field, "must be >= " + std::to_string(smallest) + ", got " + std::to_string(value));
  };
  check(y_field, y);
  check(x_field, x);
  std::vector<std::array<float, 2>> result;
  for (int i = 0; i < y.size(); ++i) result.push_back({static_cast<float>(y[i]), static_cast<float>(x[i])});
  return result;
}

std::unique_ptr<AnchorGenerator> make_ssd_anchor_generator(const config::ConfigNode<proto::SsdAnchorGenerator>& cfg) {
  if (cfg->num_layers() < 1) cfg.fail("num_layers", "must be >= 1, got " + std::to_string(cfg->num_layers()));
  if (!(cfg->base_anchor_height() > 0)) cfg.fail("base_anchor_height", "must be > 0");
  if (!(cfg->base_anchor_width() > 0)) cfg.fail("base_anchor_width", "must be > 0");
  const auto aspect_ratios = positive_list(cfg, "aspect_ratios", cfg->aspect_ratios(), /*may_be_empty=*/true);
  const std::vector<double> scales = layer_scales(cfg);

  SsdAnchorOptions options;
  for (int layer = 0; layer < cfg->num_layers(); ++layer) {
    const auto own_scale = static_cast<float>(scales[layer]);
    std::vector<AnchorGridSpec::AnchorSpec> anchors;
    if (layer == 0 && cfg->reduce_boxes_in_lowest_layer()) {
      anchors = {{0.1f, 1.0f}, {own_scale, 2.0f}, {own_scale, 0.5f}};
    } else {
      for (float ratio : aspect_ratios) anchors.push_back({own_scale, ratio});
      if (cfg->interpolated_scale_aspect_ratio() > 0)
        anchors.push_back(
            {static_cast<float>(std::sqrt(scales[layer] * scales[layer + 1])), cfg->interpolated_scale_aspect_ratio()});
    }
    if (anchors.empty())
      cfg.fail("aspect_ratios", "must name at least one value where interpolated_scale_aspect_ratio is not > 0");
    options.layers.push_back(std::move(anchors));
  }
  options.base_height = cfg->base_anchor_height();
  options.base_width = cfg->base_anchor_width();
  options.strides_px = pairs(cfg, "height_stride", cfg->height_stride(), "width_stride", cfg->width_stride(), 1);
  options.offsets_px = pairs(cfg, "height_offset", cfg->height_offset(), "width_offset", cfg->width_offset(), 0);
  return std::make_unique<SsdAnchorGenerator>(std::move(options));
}
OSPREY_REGISTER(AnchorGenerator, &make_ssd_anchor_generator);

}  // namespace
}  // namespace osprey::boxes
