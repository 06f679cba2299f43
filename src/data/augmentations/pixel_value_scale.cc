#include <ATen/ATen.h>

#include <algorithm>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

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

std::unique_ptr<Augmentation> make_pixel_scale(const ConfigNode<proto::RandomPixelValueScale>& cfg) {
  check_range(cfg, "minval", cfg->minval(), "maxval", cfg->maxval(), 0);
  return std::make_unique<PixelValueScale>(cfg->minval(), cfg->maxval());
}
OSPREY_REGISTER(Augmentation, &make_pixel_scale);
}  // namespace
}  // namespace osprey::data
