#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "osprey/data/augmentation.h"
#include "osprey/data/color_ops.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

using Adjust = at::Tensor (*)(const at::Tensor&, float);

// One colour operation whose parameter is drawn uniformly.
class RandomAdjust final : public Augmentation {
 public:
  RandomAdjust(Adjust adjust, float low, float high) : adjust_(adjust), low_(low), high_(high) {}
  void apply(Example& example, RandomDraws& draws) const override {
    make_float(example);
    example.image = adjust_(example.image, draws.uniform(low_, high_));
  }

 private:
  Adjust adjust_;
  float low_, high_;
};

// The chain of colour operations of the Inception preprocessing, in one of two orders.
class RandomDistort final : public Augmentation {
 public:
  explicit RandomDistort(bool contrast_last) {
    const RandomAdjust brightness(&adjust_brightness, -32.0f / 255, 32.0f / 255),
        saturation(&adjust_saturation, 0.5f, 1.5f), hue(&adjust_hue, -0.2f, 0.2f),
        contrast(&adjust_contrast, 0.5f, 1.5f);
    if (contrast_last)
      chain_ = {brightness, saturation, hue, contrast};
    else
      chain_ = {brightness, contrast, saturation, hue};
  }
  void apply(Example& example, RandomDraws& draws) const override {
    for (const RandomAdjust& step : chain_) step.apply(example, draws);
  }

 private:
  std::vector<RandomAdjust> chain_;
};

/// Either may be the larger, as in configs that set one of them only; the original draws between them.
template <class M>
void check_deltas(const ConfigNode<M>& cfg) {
  for (const auto& [field, delta] : {std::pair{"min_delta", cfg->min_delta()}, {"max_delta", cfg->max_delta()}})
    if (!(delta >= 0)) cfg.fail(field, fmt::format("must be >= 0, got {}", delta));
}

std::unique_ptr<Augmentation> make_brightness(const ConfigNode<proto::RandomAdjustBrightness>& cfg) {
  if (!(cfg->max_delta() >= 0)) cfg.fail("max_delta", "must be >= 0");
  return std::make_unique<RandomAdjust>(&adjust_brightness, -cfg->max_delta(), cfg->max_delta());
}

std::unique_ptr<Augmentation> make_contrast(const ConfigNode<proto::RandomAdjustContrast>& cfg) {
  check_deltas(cfg);
  return std::make_unique<RandomAdjust>(&adjust_contrast, cfg->min_delta(), cfg->max_delta());
}

std::unique_ptr<Augmentation> make_hue(const ConfigNode<proto::RandomAdjustHue>& cfg) {
  if (!(cfg->max_delta() >= 0 && cfg->max_delta() <= 1)) cfg.fail("max_delta", "must be in [0, 1]");
  return std::make_unique<RandomAdjust>(&adjust_hue, -cfg->max_delta(), cfg->max_delta());
}

std::unique_ptr<Augmentation> make_saturation(const ConfigNode<proto::RandomAdjustSaturation>& cfg) {
  check_deltas(cfg);
  return std::make_unique<RandomAdjust>(&adjust_saturation, cfg->min_delta(), cfg->max_delta());
}

std::unique_ptr<Augmentation> make_distort(const ConfigNode<proto::RandomDistortColor>& cfg) {
  if (cfg->color_ordering() != 0 && cfg->color_ordering() != 1) cfg.fail("color_ordering", "must be 0 or 1");
  return std::make_unique<RandomDistort>(cfg->color_ordering() == 0);
}
OSPREY_REGISTER(Augmentation, &make_brightness);
OSPREY_REGISTER(Augmentation, &make_contrast);
OSPREY_REGISTER(Augmentation, &make_hue);
OSPREY_REGISTER(Augmentation, &make_saturation);
OSPREY_REGISTER(Augmentation, &make_distort);
}  // namespace
}  // namespace osprey::data
