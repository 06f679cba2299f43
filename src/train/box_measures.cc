#include "train/box_measures.h"

#include <algorithm>

namespace osprey::train {
namespace {

template <class Counts>
void count(Counts& counts, double measure, bool reached) {
  const auto above = std::ranges::find_if(Counts::kBelow, [&](double limit) { return measure < limit; });
  const auto entry = static_cast<size_t>(above - Counts::kBelow.begin());
  ++counts.boxes[entry];
  counts.reached[entry] += reached ? 1 : 0;
}

}  // namespace

BoxMeasures measure_boxes(const Example& example, const data::ImageResizer& resizer, const AnchorReach* anchors) {
  const data::ImageSize picture{example.original_height, example.original_width};
  const data::ImageSize content = resizer.content_size(picture), canvas = resizer.canvas_size(picture);
  const auto height = static_cast<float>(content.height), width = static_cast<float>(content.width);
  const float y = height / static_cast<float>(canvas.height), x = width / static_cast<float>(canvas.width);
  BoxMeasures result;
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    if (example.weights[i] == 0) continue;
    const Box& box = example.boxes[i];
    const Box& placed = result.placed.emplace_back(Box{box.ymin * y, box.xmin * x, box.ymax * y, box.xmax * x});
    const bool reached = anchors != nullptr && anchors->reaches(placed);
    const float tall = box.height() * height, wide = box.width() * width;
    count(result.sizes, std::max(tall, wide), reached);
    count(result.shapes, wide / tall, reached);
  }
  return result;
}

}  // namespace osprey::train
