#include "data/augmentations/inside_boxes.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace osprey::data {

BoxCorners corners_px(const Box& box, const at::Tensor& image) {
  const auto pixel = [&](float fraction, int64_t dimension) {
    return static_cast<int64_t>(static_cast<float>(image.size(dimension)) * std::clamp(fraction, 0.0f, 1.0f));
  };
  return {pixel(box.ymin, 0), pixel(box.xmin, 1), pixel(box.ymax, 0), pixel(box.xmax, 1)};
}

void change_inside_boxes(Example& example, float probability,
                         const std::function<at::Tensor(const at::Tensor& image)>& change, RandomDraws& draws) {
  std::vector<size_t> order(example.boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[draws.integer(0, static_cast<int64_t>(left))]);
  example.image = example.image.clone();
  for (const size_t index : order) {
    if (draws.uniform(0, 1) >= probability) continue;
    const BoxCorners box = corners_px(example.boxes[index], example.image);
    const int64_t bottom = std::min(box.ymax + 1, example.image.size(0)),
                  right = std::min(box.xmax + 1, example.image.size(1));
    if (box.ymin >= bottom || box.xmin >= right) continue;
    const at::Tensor inside = example.image.slice(0, box.ymin, bottom).slice(1, box.xmin, right);
    inside.copy_(change(inside));
  }
}

}  // namespace osprey::data
