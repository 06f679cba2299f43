#pragma once
#include <ATen/ATen.h>

namespace osprey::testing {

/// Boxes in the unit square: shape [..., 2] -> [..., 4].
inline at::Tensor random_boxes(at::IntArrayRef shape) {
  const at::Tensor a = at::rand(shape), b = at::rand(shape);
  return at::cat({at::minimum(a, b), at::maximum(a, b)}, -1);
}

}  // namespace osprey::testing
