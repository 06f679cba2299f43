#include "osprey/data/example_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace osprey::data {
namespace {
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

at::Tensor permuted_keypoints(const at::Tensor& keypoints, const std::vector<int64_t>& permutation) {
  if (permutation.empty()) return keypoints;
  TORCH_CHECK(static_cast<int64_t>(permutation.size()) == keypoints.size(1), "the permutation has ", permutation.size(),
              " keypoints, the example ", keypoints.size(1));
  return keypoints.index_select(1, at::tensor(permutation));
}

// Gives keypoints [N, K, 2] from their old y and x, and reorders visibilities with them.
void set_keypoints(Example& example, const at::Tensor& y, const at::Tensor& x,
                   const std::vector<int64_t>& permutation) {
  example.keypoints = permuted_keypoints(at::stack({y, x}, 2), permutation);
  if (example.keypoint_visibilities.defined())
    example.keypoint_visibilities = permuted_keypoints(example.keypoint_visibilities, permutation);
}

// Share of a box that lies in the window; NaN for an empty box.
float covered_share(const Box& box, const Box& window) {
  const float height = std::max(0.0f, std::min(box.ymax, window.ymax) - std::max(box.ymin, window.ymin));
  const float width = std::max(0.0f, std::min(box.xmax, window.xmax) - std::max(box.xmin, window.xmin));
  return height * width / box.area();
}
}  // namespace

void make_float(Example& example) {
  if (example.image.scalar_type() != at::kFloat) example.image = example.image.to(at::kFloat);
}

void flip_horizontal(Example& example, const std::vector<int64_t>& permutation) {
  example.image = example.image.flip(1);
  for (Box& box : example.boxes) box = {box.ymin, 1 - box.xmax, box.ymax, 1 - box.xmin};
  if (example.masks.defined()) example.masks = example.masks.flip(2);
  if (example.keypoints.defined())
    set_keypoints(example, example.keypoints.select(2, 0), 1 - example.keypoints.select(2, 1), permutation);
}

void flip_vertical(Example& example, const std::vector<int64_t>& permutation) {
  example.image = example.image.flip(0);
  for (Box& box : example.boxes) box = {1 - box.ymax, box.xmin, 1 - box.ymin, box.xmax};
  if (example.masks.defined()) example.masks = example.masks.flip(1);
  if (example.keypoints.defined())
    set_keypoints(example, 1 - example.keypoints.select(2, 0), example.keypoints.select(2, 1), permutation);
}

void rotate90(Example& example, const std::vector<int64_t>& permutation) {
  example.image = example.image.rot90(1, {0, 1}).contiguous();
  for (Box& box : example.boxes) box = {1 - box.xmax, box.ymin, 1 - box.xmin, box.ymax};
  if (example.masks.defined()) example.masks = example.masks.rot90(1, {1, 2});
  if (example.keypoints.defined())
    set_keypoints(example, 1 - example.keypoints.select(2, 1), example.keypoints.select(2, 0), permutation);
}

void change_frame(Example& example, const Box& window) {
  const float y_scale = 1 / window.height(), x_scale = 1 / window.width();
  for (Box& box : example.boxes)
    box = {(box.ymin - window.ymin) * y_scale, (box.xmin - window.xmin) * x_scale, (box.ymax - window.ymin) * y_scale,
           (box.xmax - window.xmin) * x_scale};
  if (example.keypoints.defined())
    example.keypoints = (example.keypoints - at::tensor({window.ymin, window.xmin})) * at::tensor({y_scale, x_scale});
}

void clip_boxes(Example& example) {
  const auto unit = [](float value) { return std::clamp(value, 0.0f, 1.0f); };
  for (Box& box : example.boxes) box = {unit(box.ymin), unit(box.xmin), unit(box.ymax), unit(box.xmax)};
}

void prune_keypoints(Example& example) {
  if (!example.keypoints.defined()) return;
  const at::Tensor inside = (example.keypoints >= 0).logical_and(example.keypoints <= 1).all(2, /*keepdim=*/true);
  example.keypoints = at::where(inside, example.keypoints, at::full({}, kNaN));
  if (example.keypoint_visibilities.defined())
    example.keypoint_visibilities = example.keypoint_visibilities.logical_and(inside.squeeze(2));
}

void crop(Example& example, const PixelWindow& pixels, float overlap_thresh, bool clip) {
  const int64_t rows = example.image.size(0), columns = example.image.size(1);
  TORCH_CHECK(0 <= pixels.ymin && pixels.ymin < pixels.ymax && pixels.ymax <= rows && 0 <= pixels.xmin &&
                  pixels.xmin < pixels.xmax && pixels.xmax <= columns,
              "the window is empty or leaves the image");
  const float height = static_cast<float>(rows), width = static_cast<float>(columns);
  const Box window{static_cast<float>(pixels.ymin) / height, static_cast<float>(pixels.xmin) / width,
                   static_cast<float>(pixels.ymax) / height, static_cast<float>(pixels.xmax) / width};

  std::vector<int64_t> kept;
  for (size_t i = 0; i < example.boxes.size(); ++i) {
    const Box& box = example.boxes[i];
    const bool outside =
        box.ymin >= window.ymax || box.xmin >= window.xmax || box.ymax <= window.ymin || box.xmax <= window.xmin;
    if (!outside && covered_share(box, window) >= overlap_thresh) kept.push_back(static_cast<int64_t>(i));
  }
  if (kept.size() != example.boxes.size()) select(example, kept);
  change_frame(example, window);
  if (clip) {
    clip_boxes(example);
    prune_keypoints(example);
  }

  const auto cut = [&](const at::Tensor& picture, int64_t first) {
    return picture.slice(first, pixels.ymin, pixels.ymax).slice(first + 1, pixels.xmin, pixels.xmax);
  };
  example.image = cut(example.image, 0);
  if (example.masks.defined()) example.masks = cut(example.masks, 1);
}

void move_objects(Example& example, int64_t height, int64_t width, int64_t top, int64_t left) {
  const int64_t rows = example.image.size(0), columns = example.image.size(1);
  if (example.masks.defined()) {
    at::Tensor masks = at::zeros({example.masks.size(0), height, width}, example.masks.options());
    masks.narrow(1, top, rows).narrow(2, left, columns).copy_(example.masks);
    example.masks = masks;
  }
  const float h = static_cast<float>(rows), w = static_cast<float>(columns);
  change_frame(example, {static_cast<float>(-top) / h, static_cast<float>(-left) / w,
                         static_cast<float>(height - top) / h, static_cast<float>(width - left) / w});
}

void pad(Example& example, int64_t height, int64_t width, int64_t top, int64_t left, const std::vector<float>& color) {
  make_float(example);
  const int64_t rows = example.image.size(0), columns = example.image.size(1), channels = example.image.size(2);
  TORCH_CHECK(top >= 0 && left >= 0 && top + rows <= height && left + columns <= width, "the canvas is too small");
  TORCH_CHECK(static_cast<int64_t>(color.size()) == channels, "a pad colour needs ", channels, " values");
  at::Tensor canvas = at::tensor(color).expand({height, width, channels}).contiguous();
  canvas.narrow(0, top, rows).narrow(1, left, columns).copy_(example.image);
  move_objects(example, height, width, top, left);
  example.image = canvas;
}

void resize(Example& example, int64_t height, int64_t width, const ResizeOptions& image, const ResizeOptions& masks) {
  example.image = resize(example.image, height, width, image);
  if (!example.masks.defined()) return;
  at::Tensor resized = at::empty({example.masks.size(0), height, width});
  for (int64_t i = 0; i < resized.size(0); ++i)
    resized[i].copy_(resize(example.masks[i].to(at::kFloat).unsqueeze(2), height, width, masks).squeeze(2));
  example.masks = resized;
}

std::vector<float> mean_color(const at::Tensor& image) {
  const at::Tensor mean = image.to(at::kFloat).mean(at::IntArrayRef{0, 1}).contiguous();
  return {mean.const_data_ptr<float>(), mean.const_data_ptr<float>() + mean.numel()};
}

void keep_weights_above(Example& example, float threshold) {
  std::vector<int64_t> kept;
  for (size_t i = 0; i < example.weights.size(); ++i)
    if (example.weights[i] > threshold || std::isnan(example.weights[i])) kept.push_back(static_cast<int64_t>(i));
  select(example, kept);
}

}  // namespace osprey::data
