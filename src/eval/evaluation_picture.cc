#include "eval/evaluation_picture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "osprey/eval/draw.h"

namespace osprey::eval {
namespace {

constexpr double kLongestSide = 1024, kShortestLongSide = 400;  // pixels

// The picture of a row: uint8, [H, W, 3], without padding.
at::Tensor picture_of(const Batch& batch, int64_t row) {
  const at::Tensor shape = batch.true_shapes[row].to(at::kCPU, at::kLong);
  const int64_t height = shape[0].item<int64_t>(), width = shape[1].item<int64_t>();
  at::Tensor picture = batch.images[row].slice(1, 0, height).slice(2, 0, width).to(at::kCPU);
  if (picture.scalar_type() != at::kByte) picture = picture.round().clamp(0, 255).to(at::kByte);
  return picture.permute({1, 2, 0}).contiguous();
}

}  // namespace

at::Tensor picture_for_view(const Batch& batch, int64_t row, double height, double width) {
  const double longest = std::max({height, width, 1.0});
  const double scale = std::clamp(longest, kShortestLongSide, kLongestSide) / longest;
  const auto size = [&](double side) { return std::max<int64_t>(1, std::llround(side * scale)); };
  return resize_for_view(picture_of(batch, row), size(height), size(width));
}

Box normalised(const BoxPx& box, double height, double width) {
  return {static_cast<float>(box.ymin / height), static_cast<float>(box.xmin / width),
          static_cast<float>(box.ymax / height), static_cast<float>(box.xmax / width)};
}

at::Tensor evaluation_picture(const Batch& batch, int64_t row, const ImageGroundTruth& truth,
                              const ImageDetections& found, const std::vector<Category>& categories,
                              const EvaluationOptions& options) {
  std::map<int64_t, std::string> names;
  for (const Category& category : categories) names[category.id] = category.name;
  std::vector<DrawnBox> left, right;
  for (size_t g = 0; g < truth.boxes_px.size(); ++g) {
    DrawnBox box{.box = normalised(truth.boxes_px[g], truth.height, truth.width),
                 .class_index = truth.classes[g] - 1,
                 .label = names[truth.classes[g]]};
    if (truth.is_crowd[g]) box.label += " (crowd)";
    right.push_back(box);
    if (!options.visualize_ground_truth) continue;
    box.color = options.ground_truth_color;
    box.label.clear();
    left.push_back(box);
  }
  // The limit is one of detections: the best of them, then all of the ground truth.
  std::vector<DrawnBox> detections;
  for (size_t d = 0; d < found.boxes_px.size(); ++d)
    if (found.scores[d] >= options.min_score_threshold)
      detections.push_back({.box = normalised(found.boxes_px[d], truth.height, truth.width),
                            .class_index = found.classes[d] - 1,
                            .label = names[found.classes[d]],
                            .score = found.scores[d]});
  std::stable_sort(detections.begin(), detections.end(),
                   [](const DrawnBox& a, const DrawnBox& b) { return a.score > b.score; });
  if (detections.size() > static_cast<size_t>(options.max_num_boxes_to_visualize))
    detections.resize(static_cast<size_t>(options.max_num_boxes_to_visualize));
  left.insert(left.end(), detections.begin(), detections.end());

  const at::Tensor picture = picture_for_view(batch, row, truth.height, truth.width);
  DrawOptions draw{.max_boxes = static_cast<int>(left.size()),
                   .min_score = 0,
                   .show_labels = !options.skip_labels,
                   .show_scores = !options.skip_scores};
  const at::Tensor left_picture = draw_boxes(picture, left, draw);
  draw.max_boxes = static_cast<int>(right.size());
  return side_by_side(left_picture, draw_boxes(picture, right, draw));
}

}  // namespace osprey::eval
