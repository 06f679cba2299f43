#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/augmentations/checks.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// A draw from Beta(alpha, alpha): Devroye, "Random Variate Generation in One Line of Code", WSC 1996.
float symmetric_beta(double alpha, RandomDraws& draws) {
  const double u = draws.uniform(0, 1), cosine = std::cos(2 * std::numbers::pi * draws.uniform(0, 1));
  const double odds = (std::pow(u, -1 / alpha) - 1) * cosine * cosine;
  return static_cast<float>(0.5 + std::copysign(0.5, cosine) / std::sqrt(1 + 1 / odds));
}

// Zhang et al., "Bag of Freebies for Training Object Detection Neural Networks", 2019, section 3.1; there both pictures
// keep their sizes and the larger sides are those of the result.
class MixUp final : public Combination {
 public:
  MixUp(const Times& times, float alpha) : Combination(times), alpha_(alpha) {}
  int64_t num_others() const override { return 1; }

  void combine(Example& example, const OtherExamples& others, RandomDraws& draws) const override {
    const float ratio = symmetric_beta(alpha_, draws);
    Example other = others(draws);
    fit(other, example.image.size(0), example.image.size(1), draws);
    make_float(example);
    example.image = example.image * ratio + other.image * (1 - ratio);
    weigh(example, ratio);
    weigh(other, 1 - ratio);
    append(example, other);
  }

 private:
  // As large as it fits, at a random place.
  static void fit(Example& picture, int64_t height, int64_t width, RandomDraws& draws) {
    const auto rows = static_cast<double>(picture.image.size(0)), columns = static_cast<double>(picture.image.size(1));
    const double factor = std::min(static_cast<double>(height) / rows, static_cast<double>(width) / columns);
    const int64_t shown_height = std::clamp<int64_t>(std::lrint(rows * factor), 1, height),
                  shown_width = std::clamp<int64_t>(std::lrint(columns * factor), 1, width);
    resize(picture, shown_height, shown_width);
    const int64_t top = draws.integer(0, height - shown_height + 1), left = draws.integer(0, width - shown_width + 1);
    pad(picture, height, width, top, left, mean_color(picture.image));
  }

  static void weigh(Example& example, float share) {
    example.weights.resize(example.boxes.size(), 1.0f);
    for (float& weight : example.weights) weight *= share;
  }

  float alpha_;
};

std::unique_ptr<Augmentation> make_mix_up(const ConfigNode<proto::RandomMixUp>& cfg) {
  if (!(cfg->alpha() > 0 && std::isfinite(cfg->alpha())))
    cfg.fail("alpha", fmt::format("must be > 0 and finite, got {}", cfg->alpha()));
  return std::make_unique<MixUp>(times_of(cfg), cfg->alpha());
}
OSPREY_REGISTER(Augmentation, &make_mix_up);
}  // namespace
}  // namespace osprey::data
