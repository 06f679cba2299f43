#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "osprey/core/example.h"
#include "osprey/data/random.h"

namespace osprey::data {

/// The first and last row and column of a box in whole pixels. A box that ends at the border of the image has the row
/// or column behind its last.
struct BoxCorners {
  int64_t ymin, xmin, ymax, xmax;
};
/// image  [H, W, ...]; boxes are cut to it
BoxCorners corners_px(const Box& box, const at::Tensor& image);

/// Replaces the part of the image in every box, each with a probability; one after the other in a random order, for
/// they may overlap. Boxes without a pixel stay as they are.
///
/// change  of [h, w, C] to a tensor of the same shape and type
void change_inside_boxes(Example& example, float probability,
                         const std::function<at::Tensor(const at::Tensor& image)>& change, RandomDraws& draws);

}  // namespace osprey::data
