#include "data/augmentations/checks.h"
#include "data/augmentations/crop_sampler.h"
#include "data/augmentations/pad_sampler.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// Canvas limits in pixels, as factors of the image's size, or as pixels more than it.
class RandomPad final : public Augmentation {
 public:
  struct Limits {
    ImageSize least, most;  // 0: the factor decides
    float factor = 2;
    ImageSize extra;
  };
  RandomPad(const Limits& limits, std::vector<float> color) : limits_(limits), color_(std::move(color)) {}
  void apply(Example& example, RandomDraws& draws) const override {
    const int64_t rows = example.image.size(0), columns = example.image.size(1);
    ImageSize most = limits_.most;
    if (most.height == 0)
      most = {static_cast<int64_t>(static_cast<float>(rows) * limits_.factor) + limits_.extra.height,
              static_cast<int64_t>(static_cast<float>(columns) * limits_.factor) + limits_.extra.width};
    random_pad(example, limits_.least, most, color_, draws);
  }

 private:
  Limits limits_;
  std::vector<float> color_;
};

// Both or none of a size's sides.
ImageSize size_of(const config::Node& node, const char* height_field, bool has_height, int height,
                  const char* width_field, bool has_width, int width) {
  if (has_height != has_width)
    node.fail(has_height ? height_field : width_field, "needs both sides to be set, or none");
  if (has_height && height < 1) node.fail(height_field, "must be >= 1");
  if (has_width && width < 1) node.fail(width_field, "must be >= 1");
  return {height, width};
}

std::unique_ptr<Augmentation> make_pad(const ConfigNode<proto::RandomPadImage>& cfg) {
  RandomPad::Limits limits;
  limits.least = size_of(cfg, "min_image_height", cfg->has_min_image_height(), cfg->min_image_height(),
                         "min_image_width", cfg->has_min_image_width(), cfg->min_image_width());
  limits.most = size_of(cfg, "max_image_height", cfg->has_max_image_height(), cfg->max_image_height(),
                        "max_image_width", cfg->has_max_image_width(), cfg->max_image_width());
  return std::make_unique<RandomPad>(limits, pad_color(cfg));
}
std::unique_ptr<Augmentation> make_absolute_pad(const ConfigNode<proto::RandomAbsolutePadImage>& cfg) {
  if (cfg->max_height_padding() < 0) cfg.fail("max_height_padding", "must be >= 0");
  if (cfg->max_width_padding() < 0) cfg.fail("max_width_padding", "must be >= 0");
  RandomPad::Limits limits;
  limits.factor = 1;
  limits.extra = {std::max(cfg->max_height_padding(), 1), std::max(cfg->max_width_padding(), 1)};  // as the original
  return std::make_unique<RandomPad>(limits, pad_color(cfg));
}
OSPREY_REGISTER(Augmentation, &make_pad);
OSPREY_REGISTER(Augmentation, &make_absolute_pad);
}  // namespace
}  // namespace osprey::data
