#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osprey/core/box.h"
#include "osprey/data/image_resizer.h"

namespace osprey::data {

/// Where the pixel at column x and row y of a result comes from: column xx * x + xy * y + x0, row yx * x + yy * y + y0.
struct PixelMap {
  float xx = 1, xy = 0, x0 = 0;
  float yx = 0, yy = 1, y0 = 0;
};

/// A kind of whole-image move by some amount, and what becomes of boxes: their corners are cut to whole pixels, moved,
/// cut again, and what holds them is clamped to the image. A box that is left without any height or width at the border
/// of the image gets a twentieth of the image there, as in the program of Zoph et al., 2019.
struct Warp {
  PixelMap (*map)(float amount, ImageSize size);
  Box (*moved)(const Box& box, float amount, ImageSize size);
};
extern const Warp kRotation;      ///< around the middle; degrees, counter-clockwise
extern const Warp kShearX;        ///< columns to the left, by the amount for every row
extern const Warp kShearY;        ///< rows upwards, by the amount for every column
extern const Warp kTranslationX;  ///< to the left; pixels
extern const Warp kTranslationY;  ///< upwards; pixels

/// The image moved: the nearest pixel where the map leads into it, `fill` elsewhere.
/// image    [H, W, C] uint8 or float32
at::Tensor warped(const at::Tensor& image, const PixelMap& map, float fill);

/// Keypoints [N, K, 2] (y, x), fractions of an image of that size, moved with it; they may end outside.
at::Tensor moved_keypoints(const at::Tensor& keypoints, const PixelMap& map, ImageSize size);

}  // namespace osprey::data
