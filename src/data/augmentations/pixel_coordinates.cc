#include <ATen/ATen.h>

#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
// Boxes and keypoints in pixels of the image.
class PixelCoordinates final : public Augmentation {
 public:
  bool leaves_fractions() const override { return true; }
  void apply(Example& example, RandomDraws&) const override {
    const float rows = static_cast<float>(example.image.size(0)), columns = static_cast<float>(example.image.size(1));
    for (Box& box : example.boxes) box = {box.ymin * rows, box.xmin * columns, box.ymax * rows, box.xmax * columns};
    if (example.keypoints.defined()) example.keypoints = example.keypoints * at::tensor({rows, columns});
  }
};

std::unique_ptr<Augmentation> make_pixel_coordinates(const config::ConfigNode<proto::ScaleBoxesToPixelCoordinates>&) {
  return std::make_unique<PixelCoordinates>();
}
OSPREY_REGISTER(Augmentation, &make_pixel_coordinates);
}  // namespace
}  // namespace osprey::data
