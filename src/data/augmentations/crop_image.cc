#include "data/augmentations/crop_sampler.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

class RandomCrop final : public Augmentation {
 public:
  explicit RandomCrop(const CropOptions& options) : options_(options) {}
  void apply(Example& example, RandomDraws& draws) const override { random_crop(example, options_, draws); }

 private:
  CropOptions options_;
};

std::unique_ptr<Augmentation> make_crop(const ConfigNode<proto::RandomCropImage>& cfg) {
  CropOptions options = crop_options(cfg);
  options.min_aspect_ratio = cfg->min_aspect_ratio();
  options.max_aspect_ratio = cfg->max_aspect_ratio();
  check(options, cfg);
  return std::make_unique<RandomCrop>(options);
}
OSPREY_REGISTER(Augmentation, &make_crop);
}  // namespace
}  // namespace osprey::data
