#include <algorithm>
#include <cmath>
#include <vector>

#include "data/resizers/method.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// A scaled side, rounded as the original does: float32 products, halves to even.
int64_t rounded(int64_t side, float scale) {
  return std::max<int64_t>(1, std::lrint(static_cast<float>(side) * scale));
}

// The shorter side to min_dimension, unless the longer one would then exceed max_dimension: then that one to
// max_dimension.
class KeepAspectRatio final : public ImageResizer {
 public:
  struct Options {
    int64_t min_dimension, max_dimension;
    bool pad;
  };
  KeepAspectRatio(Options options, ResizeMethod method, bool grayscale, std::vector<float> pad_value)
      : ImageResizer({method}, grayscale, std::move(pad_value)), options_(options) {}

  ImageSize content_size(ImageSize in) const override {
    const float shorter = static_cast<float>(std::min(in.height, in.width));
    const float longer = static_cast<float>(std::max(in.height, in.width));
    const ImageSize large = scaled(in, static_cast<float>(options_.min_dimension) / shorter);
    if (std::max(large.height, large.width) <= options_.max_dimension) return large;
    return scaled(in, static_cast<float>(options_.max_dimension) / longer);
  }
  ImageSize canvas_size(ImageSize in) const override {
    return options_.pad ? ImageSize{options_.max_dimension, options_.max_dimension} : content_size(in);
  }
  std::optional<ImageSize> static_size() const override {
    if (!options_.pad) return std::nullopt;
    return ImageSize{options_.max_dimension, options_.max_dimension};
  }

 private:
  static ImageSize scaled(ImageSize in, float scale) { return {rounded(in.height, scale), rounded(in.width, scale)}; }
  Options options_;
};

std::unique_ptr<ImageResizer> make_keep_aspect_ratio(const ConfigNode<proto::KeepAspectRatioResizer>& cfg) {
  if (cfg->min_dimension() < 1) cfg.fail("min_dimension", "must be >= 1");
  if (cfg->max_dimension() < cfg->min_dimension()) cfg.fail("max_dimension", "must be >= min_dimension");
  const std::vector<float> pad_value(cfg->per_channel_pad_value().begin(), cfg->per_channel_pad_value().end());
  if (!pad_value.empty() && pad_value.size() != 3) cfg.fail("per_channel_pad_value", "must have 3 values, or none");
  return std::make_unique<KeepAspectRatio>(
      KeepAspectRatio::Options{cfg->min_dimension(), cfg->max_dimension(), cfg->pad_to_max_dimension()},
      method_of(cfg->resize_method()), cfg->convert_to_grayscale(), pad_value);
}
OSPREY_REGISTER(ImageResizer, &make_keep_aspect_ratio);
}  // namespace
}  // namespace osprey::data
