#include <algorithm>
#include <cmath>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

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

std::unique_ptr<Augmentation> make_downscale(const ConfigNode<proto::RandomDownscaleToTargetPixels>& cfg) {
  check_probability(cfg, "random_coef", cfg->random_coef());
  check_at_least(cfg, "min_target_pixels", cfg->min_target_pixels(), 1);
  // What the original takes where the field is unset, whatever its schema says.
  const int64_t most = cfg->has_max_target_pixels() ? cfg->max_target_pixels() : 800000;
  if (most < cfg->min_target_pixels()) cfg.fail("max_target_pixels", "must be >= min_target_pixels");
  return std::make_unique<DownscaleToTargetPixels>(cfg->min_target_pixels(), most, cfg->random_coef());
}
OSPREY_REGISTER(Augmentation, &make_downscale);
}  // namespace
}  // namespace osprey::data
