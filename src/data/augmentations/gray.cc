#include <ATen/ATen.h>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/color_ops.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

class Gray final : public Augmentation {
 public:
  void apply(Example& example, RandomDraws&) const override {
    make_float(example);
    example.image = luma(example.image).expand({-1, -1, 3}).contiguous();
  }
};

class RandomGray final : public Augmentation {
 public:
  explicit RandomGray(float probability) : probability_(probability) {}
  void apply(Example& example, RandomDraws& draws) const override {
    if (draws.uniform(0, 1) < probability_) Gray().apply(example, draws);
  }

 private:
  float probability_;
};

std::unique_ptr<Augmentation> make_gray(const ConfigNode<proto::RGBtoGray>&) { return std::make_unique<Gray>(); }

std::unique_ptr<Augmentation> make_random_gray(const ConfigNode<proto::RandomRGBtoGray>& cfg) {
  check_probability(cfg, "probability", cfg->probability());
  return std::make_unique<RandomGray>(cfg->probability());
}
OSPREY_REGISTER(Augmentation, &make_gray);
OSPREY_REGISTER(Augmentation, &make_random_gray);
}  // namespace
}  // namespace osprey::data
