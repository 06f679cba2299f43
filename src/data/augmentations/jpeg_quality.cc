#include <ATen/ATen.h>

#include <algorithm>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/image_codec.h"

namespace osprey::data {
namespace {
// What a JPEG of a random quality keeps of the image, which is cut to whole levels first.
class JpegQuality final : public Augmentation {
 public:
  JpegQuality(int64_t least, int64_t most, float random_coef) : least_(least), most_(most), random_coef_(random_coef) {}
  void apply(Example& example, RandomDraws& draws) const override {
    if (draws.uniform(0, 1) < random_coef_) return;
    const int64_t quality = draws.integer(least_, most_);
    const at::Tensor levels = example.image.clamp(0, 255).to(at::kByte);
    // Quality 0 is 1 to every encoder.
    const std::string encoded = encode_jpeg(levels, std::max(1, static_cast<int>(quality)), Chroma::kHalf);
    example.image = decode_image(encoded).to(at::kFloat);
  }

 private:
  int64_t least_, most_;
  float random_coef_;
};

std::unique_ptr<Augmentation> make_jpeg_quality(const config::ConfigNode<proto::RandomJpegQuality>& cfg) {
  check_probability(cfg, "random_coef", cfg->random_coef());
  check_at_least(cfg, "min_jpeg_quality", cfg->min_jpeg_quality(), 0);
  if (cfg->max_jpeg_quality() < cfg->min_jpeg_quality()) cfg.fail("max_jpeg_quality", "must be >= min_jpeg_quality");
  // the best quality is 100, and the end of the range is not drawn
  if (cfg->max_jpeg_quality() > 101) cfg.fail("max_jpeg_quality", "must be <= 101");
  return std::make_unique<JpegQuality>(cfg->min_jpeg_quality(), cfg->max_jpeg_quality(), cfg->random_coef());
}
OSPREY_REGISTER(Augmentation, &make_jpeg_quality);
}  // namespace
}  // namespace osprey::data
