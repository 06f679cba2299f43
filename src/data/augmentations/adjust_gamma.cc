#include "osprey/data/augmentation.h"
#include "osprey/data/color_ops.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

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

std::unique_ptr<Augmentation> make_gamma(const ConfigNode<proto::AdjustGamma>& cfg) {
  if (!(cfg->gamma() > 0)) cfg.fail("gamma", "must be > 0");
  if (!(cfg->gain() >= 0)) cfg.fail("gain", "must be >= 0");
  return std::make_unique<Gamma>(cfg->gamma(), cfg->gain());
}
OSPREY_REGISTER(Augmentation, &make_gamma);
}  // namespace
}  // namespace osprey::data
