#include <algorithm>

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

// As it is.
class Identity final : public ImageResizer {
 public:
  Identity() : ImageResizer({}, false) {}
  ImageSize content_size(ImageSize in) const override { return in; }
};

// As it is, padded so that both sides are divisible.
class PadToMultiple final : public ImageResizer {
 public:
  PadToMultiple(int64_t multiple, bool grayscale) : ImageResizer({}, grayscale), multiple_(multiple) {}
  ImageSize content_size(ImageSize in) const override { return in; }
  ImageSize canvas_size(ImageSize in) const override { return {rounded_up(in.height), rounded_up(in.width)}; }

 private:
  int64_t rounded_up(int64_t side) const { return (side + multiple_ - 1) / multiple_ * multiple_; }
  int64_t multiple_;
};

std::unique_ptr<ImageResizer> make_fixed_shape(const config::ConfigNode<proto::FixedShapeResizer>& cfg) {
  if (cfg->height() < 1) cfg.fail("height", "must be >= 1");
  if (cfg->width() < 1) cfg.fail("width", "must be >= 1");
  return std::make_unique<FixedShape>(ImageSize{cfg->height(), cfg->width()}, method_of(cfg->resize_method()),
                                      cfg->convert_to_grayscale());
}
std::unique_ptr<ImageResizer> make_identity(const config::ConfigNode<proto::IdentityResizer>&) {
  return std::make_unique<Identity>();
}
std::unique_ptr<ImageResizer> make_pad_to_multiple(const config::ConfigNode<proto::PadToMultipleResizer>& cfg) {
  if (cfg->multiple() < 1) cfg.fail("multiple", "must be >= 1");
  return std::make_unique<PadToMultiple>(cfg->multiple(), cfg->convert_to_grayscale());
}
OSPREY_REGISTER(ImageResizer, &make_fixed_shape);
OSPREY_REGISTER(ImageResizer, &make_identity);
OSPREY_REGISTER(ImageResizer, &make_pad_to_multiple);
}  // namespace
}  // namespace osprey::data
