#include <algorithm>

#include "data/resizers/method.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

int64_t truncated(int64_t side, float scale) {
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<float>(side) * scale));
}

// Only pictures that are larger (their longer side) or smaller (their shorter side) than the threshold, to the
// threshold.
class ConditionalShape final : public ImageResizer {
 public:
  ConditionalShape(bool if_greater, int64_t threshold, ResizeMethod method, bool grayscale)
      : ImageResizer({method, /*align_corners=*/true}, grayscale), if_greater_(if_greater), threshold_(threshold) {}

  ImageSize content_size(ImageSize in) const override {
    const int64_t side = if_greater_ ? std::max(in.height, in.width) : std::min(in.height, in.width);
    if (if_greater_ ? side <= threshold_ : side >= threshold_) return in;
    const float scale = static_cast<float>(threshold_) / static_cast<float>(side);
    return {truncated(in.height, scale), truncated(in.width, scale)};
  }

 private:
  bool if_greater_;
  int64_t threshold_;
};

std::unique_ptr<ImageResizer> make_conditional_shape(const ConfigNode<proto::ConditionalShapeResizer>& cfg) {
  if (cfg->condition() == proto::ConditionalShapeResizer::INVALID) cfg.fail("condition", "must be GREATER or SMALLER");
  if (cfg->size_threshold() < 1) cfg.fail("size_threshold", "must be >= 1");
  return std::make_unique<ConditionalShape>(cfg->condition() == proto::ConditionalShapeResizer::GREATER,
                                            cfg->size_threshold(), method_of(cfg->resize_method()),
                                            cfg->convert_to_grayscale());
}
OSPREY_REGISTER(ImageResizer, &make_conditional_shape);
}  // namespace
}  // namespace osprey::data
