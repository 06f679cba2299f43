#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osprey/core/example.h"
#include "osprey/data/random.h"

namespace osprey::data {

/// What stands where nothing of an image is left, in each channel.
inline constexpr uint8_t kFillLevel = 128;

/// Fills a square around a random pixel, `reach` rows and columns to each side, cut off at the border of the image; a
/// copy is returned.
/// image    [H, W, C], H and W at least 1
/// source   DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017
at::Tensor cut_out_anywhere(const at::Tensor& image, int64_t reach, RandomDraws& draws);

/// The same around a random pixel of a random box, as far to each side as that share of half the box's sides. Without
/// boxes nothing happens.
void cut_out_of_a_box(Example& example, double share, RandomDraws& draws);

}  // namespace osprey::data
