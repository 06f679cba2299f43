#include "osprey/data/augmentation.h"
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

std::unique_ptr<Augmentation> make_normalize(const ConfigNode<proto::NormalizeImage>& cfg) {
  if (!(cfg->original_maxval() > cfg->original_minval())) cfg.fail("original_maxval", "must be > original_minval");
  if (!(cfg->target_maxval() > cfg->target_minval())) cfg.fail("target_maxval", "must be > target_minval");
  const float scale = (cfg->target_maxval() - cfg->target_minval()) / (cfg->original_maxval() - cfg->original_minval());
  return std::make_unique<Normalize>(scale, cfg->original_minval(), cfg->target_minval());
}
OSPREY_REGISTER(Augmentation, &make_normalize);
}  // namespace
}  // namespace osprey::data
