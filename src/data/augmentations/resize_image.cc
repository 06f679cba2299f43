#include <algorithm>
#include <array>
#include <cmath>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// To one size, by one of several methods.
class ResizeTo final : public Augmentation {
 public:
  ResizeTo(int64_t height, int64_t width, std::vector<ResizeMethod> methods)
      : height_(height), width_(width), methods_(std::move(methods)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const int64_t choice = draws.integer(0, static_cast<int64_t>(methods_.size()));
    resize(example, height_, width_, {methods_[choice]});
  }

 private:
  int64_t height_, width_;
  std::vector<ResizeMethod> methods_;
};

// Both sides by one factor, to about as many pixels as are drawn; images with fewer stay as they are.
class DownscaleToTargetPixels final : public Augmentation {
 public:
  DownscaleToTargetPixels(int64_t least, int64_t most, float random_coef)
      : least_(least), most_(most), random_coef_(random_coef) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const bool stays = draws.uniform(0, 1) < random_coef_;
    const int64_t target = draws.integer(least_, most_);
    const int64_t rows = example.image.size(0), columns = example.image.size(1);
    if (stays || rows * columns <= target) return;
    const float scale = std::sqrt(static_cast<float>(target) / static_cast<float>(rows * columns));
    const auto scaled = [scale](int64_t side) {
      return std::max<int64_t>(1, static_cast<int64_t>(scale * static_cast<float>(side)));
    };
    resize(example, scaled(rows), scaled(columns));
  }

 private:
  int64_t least_, most_;
  float random_coef_;
};

ResizeMethod method_of(proto::ResizeImage::Method method) {
  switch (method) {
    case proto::ResizeImage::AREA:
      return ResizeMethod::kArea;
    case proto::ResizeImage::BICUBIC:
      return ResizeMethod::kBicubic;
    case proto::ResizeImage::NEAREST_NEIGHBOR:
      return ResizeMethod::kNearest;
    default:
      return ResizeMethod::kBilinear;
  }
}

std::unique_ptr<Augmentation> make_resize(const ConfigNode<proto::ResizeImage>& cfg) {
  check_at_least(cfg, "new_height", cfg->new_height(), 1);
  check_at_least(cfg, "new_width", cfg->new_width(), 1);
  return std::make_unique<ResizeTo>(cfg->new_height(), cfg->new_width(), std::vector{method_of(cfg->method())});
}
std::unique_ptr<Augmentation> make_random_method(const ConfigNode<proto::RandomResizeMethod>& cfg) {
  check_at_least(cfg, "target_height", cfg->target_height(), 1);
  check_at_least(cfg, "target_width", cfg->target_width(), 1);
  return std::make_unique<ResizeTo>(
      cfg->target_height(), cfg->target_width(),
      std::vector{ResizeMethod::kBilinear, ResizeMethod::kNearest, ResizeMethod::kBicubic, ResizeMethod::kArea});
}
std::unique_ptr<Augmentation> make_downscale(const ConfigNode<proto::RandomDownscaleToTargetPixels>& cfg) {
  check_probability(cfg, "random_coef", cfg->random_coef());
  check_at_least(cfg, "min_target_pixels", cfg->min_target_pixels(), 1);
  // What the original takes where the field is unset, whatever its schema says.
  const int64_t most = cfg->has_max_target_pixels() ? cfg->max_target_pixels() : 800000;
  if (most < cfg->min_target_pixels()) cfg.fail("max_target_pixels", "must be >= min_target_pixels");
  return std::make_unique<DownscaleToTargetPixels>(cfg->min_target_pixels(), most, cfg->random_coef());
}
OSPREY_REGISTER(Augmentation, &make_resize);
OSPREY_REGISTER(Augmentation, &make_random_method);
OSPREY_REGISTER(Augmentation, &make_downscale);
}  // namespace
}  // namespace osprey::data
