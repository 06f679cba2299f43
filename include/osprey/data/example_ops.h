#pragma once
#include <cstdint>
#include <vector>

#include "osprey/core/example.h"
#include "osprey/data/resize.h"

namespace osprey::data {

/// The operations that augmentations are made of: each changes image, boxes, masks and keypoints of an example
/// together. Images are [H, W, C] uint8 or float32 and keep their type.

/// Turns a uint8 image into float32.
void make_float(Example& example);

/// Mirrors left-right. permutation: new keypoint k is the old permutation[k]; empty: keypoints keep their order.
void flip_horizontal(Example& example, const std::vector<int64_t>& permutation = {});
/// Mirrors up-down.
void flip_vertical(Example& example, const std::vector<int64_t>& permutation = {});
/// Turns by 90 degrees, counter-clockwise.
void rotate90(Example& example, const std::vector<int64_t>& permutation = {});

/// A window in pixels, as rows [ymin, ymax) and columns [xmin, xmax).
struct PixelWindow {
  int64_t ymin = 0, xmin = 0, ymax = 0, xmax = 0;
};

/// Cuts the window out. Boxes that do not touch it, and boxes of which less than `overlap_thresh` of their area lies
/// inside, are dropped with all that belongs to them; the others are expressed in the window and clamped to [0, 1]
/// where `clip` is set, and keypoints outside the window become NaN then.
void crop(Example& example, const PixelWindow& window, float overlap_thresh, bool clip);

/// Places the image on a canvas of height x width pixels, its corner at (top, left); the rest has `color`, one value
/// per channel. The image becomes float32; masks are padded with 0.
void pad(Example& example, int64_t height, int64_t width, int64_t top, int64_t left, const std::vector<float>& color);

/// Expresses boxes, keypoints and masks in a canvas of height x width pixels on which the image lies, its corner at
/// (top, left). The image stays as it is.
void move_objects(Example& example, int64_t height, int64_t width, int64_t top, int64_t left);

/// Resizes the image, which becomes float32, and the masks; boxes and keypoints are fractions of it and stay.
/// height, width  of the result, at least 1
void resize(Example& example, int64_t height, int64_t width, const ResizeOptions& image = {},
            const ResizeOptions& masks = {ResizeMethod::kNearest});

/// Expresses boxes and keypoints relative to a window given as fractions of the image.
void change_frame(Example& example, const Box& window);
/// Keeps the objects whose weight is above the threshold, or no number.
void keep_weights_above(Example& example, float threshold);
/// Clamps boxes to [0, 1].
void clip_boxes(Example& example);

/// Keypoints outside the image become NaN and invisible.
void prune_keypoints(Example& example);

/// Mean of each channel.
std::vector<float> mean_color(const at::Tensor& image);

}  // namespace osprey::data
