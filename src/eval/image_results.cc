#include "eval/image_results.h"

#include <ATen/ATen.h>

#include <cmath>

namespace osprey::eval {
namespace {

/// In float32, as the original scales: boxes of whole pixels then have whole sides, and where the limits between sizes
/// of objects are met exactly an object or a false alarm counts on both sides of them. The far corner is the near one
/// and a side of float32, since it is sides that COCO's evaluation is told.
BoxPx to_pixels(const float* box, int64_t height, int64_t width) {
  const auto h = static_cast<float>(height), w = static_cast<float>(width);
  const float ymin = box[0] * h, xmin = box[1] * w, ymax = box[2] * h, xmax = box[3] * w;
  return {ymin, xmin, double{ymin} + (ymax - ymin), double{xmin} + (xmax - xmin)};
}

/// Likewise.
float area_of(const BoxPx& box) {
  return static_cast<float>(box.ymax - box.ymin) * static_cast<float>(box.xmax - box.xmin);
}

// One row of a tensor, contiguous; its memory lives as long as the result.
at::Tensor row_of(const at::Tensor& tensor, int64_t row, at::ScalarType type) {
  return tensor[row].to(at::kCPU, type).contiguous();
}

}  // namespace

ImageGroundTruth ground_truth_of(const Batch& batch, int64_t row) {
  const auto flags = [&](const at::Tensor& tensor) {
    return tensor.defined() ? row_of(tensor, row, at::kBool) : at::zeros({batch.boxes.size(1)}, at::kBool);
  };
  const at::Tensor sizes = row_of(batch.original_sizes, row, at::kLong), boxes = row_of(batch.boxes, row, at::kFloat);
  const at::Tensor valid = row_of(batch.valid, row, at::kBool), crowd = flags(batch.is_crowd),
                   difficult = flags(batch.difficult);
  const at::Tensor group = flags(batch.group_of), classes = row_of(batch.classes, row, at::kDouble);
  const at::Tensor area =
      batch.area.defined() ? row_of(batch.area, row, at::kFloat) : at::zeros({boxes.size(0)}, at::kFloat);
  ImageGroundTruth truth;
  const int64_t height = sizes.const_data_ptr<int64_t>()[0], width = sizes.const_data_ptr<int64_t>()[1];
  truth.height = static_cast<double>(height);
  truth.width = static_cast<double>(width);
  const double* class_data = classes.const_data_ptr<double>();
  const int64_t num_columns = classes.dim() == 2 ? classes.size(1) : 0;
  auto add = [&](int64_t box, int64_t class_index) {
    truth.boxes_px.push_back(to_pixels(boxes.const_data_ptr<float>() + 4 * box, height, width));
    truth.classes.push_back(class_index + 1);
    truth.is_crowd.push_back(crowd.const_data_ptr<bool>()[box]);
    truth.difficult.push_back(difficult.const_data_ptr<bool>()[box]);
    truth.group_of.push_back(group.const_data_ptr<bool>()[box]);
    const float annotated = area.const_data_ptr<float>()[box];
    truth.area.push_back(annotated > 0 ? annotated : area_of(truth.boxes_px.back()));
  };
  for (int64_t box = 0; box < boxes.size(0); ++box) {
    if (!valid.const_data_ptr<bool>()[box]) continue;
    if (num_columns == 0) add(box, static_cast<int64_t>(class_data[box]));
    for (int64_t c = 0; c < num_columns; ++c)
      if (class_data[box * num_columns + c] > 0) add(box, c);
  }
  if (batch.image_classes.defined()) {
    const at::Tensor labels = row_of(batch.image_classes, row, at::kBool);
    for (int64_t c = 0; c < labels.size(0); ++c)
      if (labels.const_data_ptr<bool>()[c]) truth.image_classes.push_back(c + 1);
  }
  truth.all_classes_annotated = truth.image_classes.empty();  // as the original takes pictures without such labels
  return truth;
}

ImageDetections detections_of(const Detections& detections, int64_t row, int64_t height, int64_t width,
                              int64_t& num_not_finite) {
  const at::Tensor boxes = row_of(detections.boxes, row, at::kFloat),
                   scores = row_of(detections.scores, row, at::kFloat);
  const at::Tensor classes = row_of(detections.classes, row, at::kLong);
  const int64_t count = detections.count[row].item<int64_t>();
  ImageDetections found;
  for (int64_t d = 0; d < count; ++d) {
    const float* box = boxes.const_data_ptr<float>() + 4 * d;
    const float score = scores.const_data_ptr<float>()[d];
    if (!std::isfinite(score) || !std::isfinite(box[0] + box[1] + box[2] + box[3])) {
      ++num_not_finite;
      continue;
    }
    found.boxes_px.push_back(to_pixels(box, height, width));
    found.scores.push_back(score);
    found.classes.push_back(classes.const_data_ptr<int64_t>()[d] + 1);
  }
  return found;
}

}  // namespace osprey::eval
