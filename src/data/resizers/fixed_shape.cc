#include "data/resizers/method.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
// Every picture to one size, whatever its aspect ratio.
class FixedShape final : public ImageResizer {
 public:
  FixedShape(ImageSize size, ResizeMethod method, bool grayscale) : ImageResizer({method}, grayscale), size_(size) {}
  ImageSize content_size(ImageSize) const override { return size_; }
  std::optional<ImageSize> static_size() const override { return size_; }

 private:
  ImageSize size_;
};

std::unique_ptr<ImageResizer> make_fixed_shape(const config::ConfigNode<proto::FixedShapeResizer>& cfg) {
  if (cfg->height() < 1) cfg.fail("height", "must be >= 1");
  if (cfg->width() < 1) cfg.fail("width", "must be >= 1");
  return std::make_unique<FixedShape>(ImageSize{cfg->height(), cfg->width()}, method_of(cfg->resize_method()),
                                      cfg->convert_to_grayscale());
}
OSPREY_REGISTER(ImageResizer, &make_fixed_shape);
}  // namespace
}  // namespace osprey::data
