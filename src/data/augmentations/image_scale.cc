#include <algorithm>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

class ImageScale final : public Augmentation {
 public:
  ImageScale(float low, float high) : low_(low), high_(high) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const float scale = draws.uniform(low_, high_);
    const auto scaled = [scale](int64_t side) {
      return std::max<int64_t>(1, static_cast<int64_t>(static_cast<float>(side) * scale));
    };
    const int64_t height = scaled(example.image.size(0)), width = scaled(example.image.size(1));
    resize(example, height, width, {ResizeMethod::kBilinear, /*align_corners=*/true},
           {ResizeMethod::kNearest, /*align_corners=*/true});
  }

 private:
  float low_, high_;
};

std::unique_ptr<Augmentation> make_image_scale(const ConfigNode<proto::RandomImageScale>& cfg) {
  if (!(cfg->min_scale_ratio() > 0)) cfg.fail("min_scale_ratio", "must be > 0");
  check_range(cfg, "min_scale_ratio", cfg->min_scale_ratio(), "max_scale_ratio", cfg->max_scale_ratio(), 0);
  return std::make_unique<ImageScale>(cfg->min_scale_ratio(), cfg->max_scale_ratio());
}
OSPREY_REGISTER(Augmentation, &make_image_scale);
}  // namespace
}  // namespace osprey::data
