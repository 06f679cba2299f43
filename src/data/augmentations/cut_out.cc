#include "data/augmentations/cut_out.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "data/augmentations/inside_boxes.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {
namespace {
at::Tensor cut_out(const at::Tensor& image, int64_t y, int64_t x, ImageSize reach) {
  at::Tensor out = image.clone();
  const int64_t bottom = std::min(y + reach.height, image.size(0)), right = std::min(x + reach.width, image.size(1));
  const int64_t top = std::clamp<int64_t>(y - reach.height, 0, bottom);
  const int64_t left = std::clamp<int64_t>(x - reach.width, 0, right);
  out.slice(0, top, bottom).slice(1, left, right).fill_(kFillLevel);
  return out;
}
}  // namespace

at::Tensor cut_out_anywhere(const at::Tensor& image, int64_t reach, RandomDraws& draws) {
  const int64_t y = draws.integer(0, image.size(0)), x = draws.integer(0, image.size(1));
  return cut_out(image, y, x, {reach, reach});
}

void cut_out_of_a_box(Example& example, double share, RandomDraws& draws) {
  if (example.boxes.empty()) return;
  const int64_t chosen = draws.integer(0, static_cast<int64_t>(example.boxes.size()));
  const BoxCorners box = corners_px(example.boxes[chosen], example.image);
  const auto reach = [share](int64_t first, int64_t last) {
    return static_cast<int64_t>(share * (static_cast<double>(last - first + 1) / 2));
  };
  const int64_t y = draws.integer(box.ymin, box.ymax + 1), x = draws.integer(box.xmin, box.xmax + 1);
  example.image = cut_out(example.image, y, x, {reach(box.ymin, box.ymax), reach(box.xmin, box.xmax)});
}

}  // namespace osprey::data
