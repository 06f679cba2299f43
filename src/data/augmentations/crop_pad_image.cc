#include "data/augmentations/checks.h"
#include "data/augmentations/crop_pad.h"

namespace osprey::data {
namespace {
class RandomCropPad final : public Augmentation {
 public:
  explicit RandomCropPad(CropPadOptions options) : options_(std::move(options)) {}
  void apply(Example& example, RandomDraws& draws) const override { random_crop_pad(example, options_, draws); }

 private:
  CropPadOptions options_;
};

std::unique_ptr<Augmentation> make_crop_pad_image(const config::ConfigNode<proto::RandomCropPadImage>& cfg) {
  CropPadOptions options;
  options.crop = crop_options(cfg);
  options.crop.min_aspect_ratio = cfg->min_aspect_ratio();
  options.crop.max_aspect_ratio = cfg->max_aspect_ratio();
  check(options.crop, cfg);
  read_padded_ratios(cfg, options.min_ratio, options.max_ratio);
  options.color = pad_color(cfg);
  return std::make_unique<RandomCropPad>(std::move(options));
}
OSPREY_REGISTER(Augmentation, &make_crop_pad_image);
}  // namespace

void random_crop_pad(Example& example, const CropPadOptions& options, RandomDraws& draws) {
  const float rows = static_cast<float>(example.image.size(0)), columns = static_cast<float>(example.image.size(1));
  const auto size = [&](const std::vector<float>& ratio) {
    return ImageSize{static_cast<int64_t>(rows * ratio[0]), static_cast<int64_t>(columns * ratio[1])};
  };
  random_crop(example, options.crop, draws);
  random_pad(example, size(options.min_ratio), size(options.max_ratio), options.color, draws);
}

}  // namespace osprey::data
