#include <ATen/ATen.h>

#include <algorithm>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/color_ops.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// The affine map that takes [original_min, original_max] to [target_min, target_max].
class Normalize final : public Augmentation {
 public:
  Normalize(float scale, float original_min, float target_min)
      : scale_(scale), original_min_(original_min), target_min_(target_min) {}
  bool leaves_levels() const override { return true; }
  void apply(Example& example, RandomDraws&) const override {
    make_float(example);
    example.image = example.image.sub(original_min_).mul_(scale_).add_(target_min_);
  }

 private:
  float scale_, original_min_, target_min_;
};

class SubtractChannelMean final : public Augmentation {
 public:
  explicit SubtractChannelMean(const std::vector<float>& means) : means_(at::tensor(means)) {}
  bool leaves_levels() const override { return true; }
  void apply(Example& example, RandomDraws&) const override {
    make_float(example);
    example.image = example.image - means_;
  }

 private:
  at::Tensor means_;
};

// Every value of every pixel gets its own factor.
class PixelValueScale final : public Augmentation {
 public:
  PixelValueScale(float low, float high) : low_(low), high_(high) {}
  void apply(Example& example, RandomDraws& draws) const override {
    at::Tensor image = example.image.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
    float* values = image.data_ptr<float>();
    for (int64_t i = 0; i < image.numel(); ++i)
      values[i] = std::clamp(values[i] * draws.uniform(low_, high_), 0.0f, 255.0f);
    example.image = image;
  }

 private:
  float low_, high_;
};

class Gamma final : public Augmentation {
 public:
  Gamma(float gamma, float gain) : gamma_(gamma), gain_(gain) {}
  void apply(Example& example, RandomDraws&) const override {
    make_float(example);
    example.image = adjust_gamma(example.image, gamma_, gain_);
  }

 private:
  float gamma_, gain_;
};

// Squares of zeros; each of max_patches tries succeeds with a probability.
class BlackPatches final : public Augmentation {
 public:
  BlackPatches(int max_patches, float probability, float size)
      : max_patches_(max_patches), probability_(probability), size_(size) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const float height = static_cast<float>(example.image.size(0)), width = static_cast<float>(example.image.size(1));
    const int64_t side = static_cast<int64_t>(std::min(height, width) * size_);
    example.image = example.image.clone();
    for (int i = 0; i < max_patches_; ++i) {
      if (draws.uniform(0, 1) > probability_) continue;
      const int64_t top = static_cast<int64_t>(draws.uniform(0, 1 - size_) * height);
      const int64_t left = static_cast<int64_t>(draws.uniform(0, 1 - size_) * width);
      example.image.slice(0, top, top + side).slice(1, left, left + side).zero_();
    }
  }

 private:
  int max_patches_;
  float probability_, size_;
};

std::unique_ptr<Augmentation> make_normalize(const ConfigNode<proto::NormalizeImage>& cfg) {
  if (!(cfg->original_maxval() > cfg->original_minval())) cfg.fail("original_maxval", "must be > original_minval");
  if (!(cfg->target_maxval() > cfg->target_minval())) cfg.fail("target_maxval", "must be > target_minval");
  const float scale = (cfg->target_maxval() - cfg->target_minval()) / (cfg->original_maxval() - cfg->original_minval());
  return std::make_unique<Normalize>(scale, cfg->original_minval(), cfg->target_minval());
}
std::unique_ptr<Augmentation> make_subtract_mean(const ConfigNode<proto::SubtractChannelMean>& cfg) {
  if (cfg->means_size() != 3) cfg.fail("means", "must have 3 values, got " + std::to_string(cfg->means_size()));
  return std::make_unique<SubtractChannelMean>(std::vector<float>(cfg->means().begin(), cfg->means().end()));
}
std::unique_ptr<Augmentation> make_pixel_scale(const ConfigNode<proto::RandomPixelValueScale>& cfg) {
  check_range(cfg, "minval", cfg->minval(), "maxval", cfg->maxval(), 0);
  return std::make_unique<PixelValueScale>(cfg->minval(), cfg->maxval());
}
std::unique_ptr<Augmentation> make_gamma(const ConfigNode<proto::AdjustGamma>& cfg) {
  if (!(cfg->gamma() > 0)) cfg.fail("gamma", "must be > 0");
  if (!(cfg->gain() >= 0)) cfg.fail("gain", "must be >= 0");
  return std::make_unique<Gamma>(cfg->gamma(), cfg->gain());
}
std::unique_ptr<Augmentation> make_black_patches(const ConfigNode<proto::RandomBlackPatches>& cfg) {
  if (cfg->max_black_patches() < 0) cfg.fail("max_black_patches", "must be >= 0");
  check_probability(cfg, "probability", cfg->probability());
  check_probability(cfg, "size_to_image_ratio", cfg->size_to_image_ratio());
  return std::make_unique<BlackPatches>(cfg->max_black_patches(), cfg->probability(), cfg->size_to_image_ratio());
}
OSPREY_REGISTER(Augmentation, &make_normalize);
OSPREY_REGISTER(Augmentation, &make_subtract_mean);
OSPREY_REGISTER(Augmentation, &make_pixel_scale);
OSPREY_REGISTER(Augmentation, &make_gamma);
OSPREY_REGISTER(Augmentation, &make_black_patches);
}  // namespace
}  // namespace osprey::data
