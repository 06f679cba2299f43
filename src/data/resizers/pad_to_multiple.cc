#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
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

std::unique_ptr<ImageResizer> make_pad_to_multiple(const config::ConfigNode<proto::PadToMultipleResizer>& cfg) {
  if (cfg->multiple() < 1) cfg.fail("multiple", "must be >= 1");
  return std::make_unique<PadToMultiple>(cfg->multiple(), cfg->convert_to_grayscale());
}
OSPREY_REGISTER(ImageResizer, &make_pad_to_multiple);
}  // namespace
}  // namespace osprey::data
