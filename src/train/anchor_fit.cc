#include "train/anchor_fit.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace osprey::train {
namespace {

/// Centres along one side of a feature map.
struct Centres {
  float first = 0, stride = 0;
  int64_t count = 0;

  float nearest(float position) const {
    if (count == 1) return first;
    return first + stride * std::clamp(std::round((position - first) / stride), 0.0f, static_cast<float>(count - 1));
  }
};

/// axis   0: rows, 1: columns
/// grid   [rows, columns, anchors of a cell, 4]
Centres centres_of(const at::Tensor& grid, int64_t axis) {
  const auto at_cell = [&](int64_t cell) {
    const at::Tensor anchor = grid.select(axis, cell).select(0, 0).select(0, 0);
    return (anchor[axis].item<float>() + anchor[axis + 2].item<float>()) / 2;
  };
  Centres result{at_cell(0), 0, grid.size(axis)};
  if (result.count > 1)
    result.stride = (at_cell(result.count - 1) - result.first) / static_cast<float>(result.count - 1);
  return result;
}

/// IoU of a box with an anchor around the origin.
float overlap(const Box& box, float half_height, float half_width) {
  const float height = std::min(box.ymax, half_height) - std::max(box.ymin, -half_height);
  const float width = std::min(box.xmax, half_width) - std::max(box.xmin, -half_width);
  if (height <= 0 || width <= 0) return 0;
  const float common = height * width;
  return common / (box.area() + 4 * half_height * half_width - common);
}

}  // namespace

AnchorFit::AnchorFit(const boxes::AnchorGenerator& generator, const AnchorPlaces& places, const std::vector<Box>& boxes)
    : places_(places) {
  const auto& maps = places.feature_maps;
  const at::Tensor anchors = places.anchors_on(maps, generator);
  const std::vector<int64_t> of_cell = generator.num_anchors_per_location();
  int64_t first = 0;
  for (size_t map = 0; map < maps.size(); ++map) {
    const auto [rows, columns] = maps[map];
    const int64_t count = rows * columns * of_cell[map];
    const at::Tensor grid = anchors.narrow(0, first, count).view({rows, columns, of_cell[map], 4});
    const Centres down = centres_of(grid, 0), across = centres_of(grid, 1);
    std::vector<Box>& seen = boxes_.emplace_back();
    for (const Box& box : boxes) {
      const float y = down.nearest((box.ymin + box.ymax) / 2), x = across.nearest((box.xmin + box.xmax) / 2);
      seen.push_back({box.ymin - y, box.xmin - x, box.ymax - y, box.xmax - x});
    }
    first += count;
  }
}

AnchorFit::Score AnchorFit::of(const boxes::AnchorGenerator& generator) const {
  const std::vector<boxes::FeatureMapShape> cells(places_.feature_maps.size(), {1, 1});
  const at::Tensor anchors = places_.anchors_on(cells, generator).contiguous();
  const auto* row = anchors.const_data_ptr<float>();
  const std::vector<int64_t> of_cell = generator.num_anchors_per_location();
  std::vector<float> best(boxes_.front().size());
  for (size_t map = 0; map < boxes_.size(); ++map)
    for (int64_t a = 0; a < of_cell[map]; ++a, row += 4) {
      const float half_height = (row[2] - row[0]) / 2, half_width = (row[3] - row[1]) / 2;
      for (size_t i = 0; i < best.size(); ++i)
        best[i] = std::max(best[i], overlap(boxes_[map][i], half_height, half_width));
    }
  Score score;
  for (const float iou : best) {
    score.reached += iou >= places_.threshold;
    score.overlap += iou;
  }
  return score;
}

}  // namespace osprey::train
