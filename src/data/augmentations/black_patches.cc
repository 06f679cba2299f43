#include <ATen/ATen.h>

#include <algorithm>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

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

std::unique_ptr<Augmentation> make_black_patches(const ConfigNode<proto::RandomBlackPatches>& cfg) {
  if (cfg->max_black_patches() < 0) cfg.fail("max_black_patches", "must be >= 0");
  check_probability(cfg, "probability", cfg->probability());
  check_probability(cfg, "size_to_image_ratio", cfg->size_to_image_ratio());
  return std::make_unique<BlackPatches>(cfg->max_black_patches(), cfg->probability(), cfg->size_to_image_ratio());
}
OSPREY_REGISTER(Augmentation, &make_black_patches);
}  // namespace
}  // namespace osprey::data
