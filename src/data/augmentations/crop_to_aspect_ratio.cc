#include "data/augmentations/checks.h"
#include "data/augmentations/crop_sampler.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

class CropToAspectRatio final : public Augmentation {
 public:
  CropToAspectRatio(float aspect_ratio, float overlap_thresh, bool clip)
      : aspect_ratio_(aspect_ratio), overlap_thresh_(overlap_thresh), clip_(clip) {}
  void apply(Example& example, RandomDraws& draws) const override {
    random_crop_to_aspect_ratio(example, aspect_ratio_, overlap_thresh_, clip_, draws);
  }

 private:
  float aspect_ratio_, overlap_thresh_;
  bool clip_;
};

std::unique_ptr<Augmentation> make_crop_to_aspect_ratio(const ConfigNode<proto::RandomCropToAspectRatio>& cfg) {
  if (!(cfg->aspect_ratio() > 0)) cfg.fail("aspect_ratio", "must be > 0");
  check_probability(cfg, "overlap_thresh", cfg->overlap_thresh());
  return std::make_unique<CropToAspectRatio>(cfg->aspect_ratio(), cfg->overlap_thresh(), cfg->clip_boxes());
}
OSPREY_REGISTER(Augmentation, &make_crop_to_aspect_ratio);
}  // namespace
}  // namespace osprey::data
