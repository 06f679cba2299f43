#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/pending_map.h"

/// Maps rounded to the numbers of 8 bits.
namespace osprey::kernels {

/// The least and the largest value of a map, or zero where all lie on one side of it. What is no number is not seen.
/// input    may be pending; its values are not written anywhere
/// returns  [2] float32
/// throws   c10::Error as `pending_values`
/// operator osprey::value_range
at::Tensor value_range(const PendingMap& input);

/// How values are rounded: to numbers from `first` to 255, with the same distance between any two, of which one is
/// zero.
struct RoundingGrid {
  at::Tensor range;   ///< [2] float32: from where to where they lie, not above and not below zero
  at::Tensor rounds;  ///< scalar bool: false, values stay as they are; undefined: true
  int64_t first = 0;  ///< 0, or 1: as many below zero as above it
};

/// The values of a map to the nearest of these numbers, ties to even, in one pass. Gradients flow to all parts of the
/// map, from the values that lie between the first and the last number, as if nothing were rounded; none to the grid.
/// returns  like input.x; what is no number stays so
/// throws   c10::Error as `pending_values`, and for other grids
/// operator osprey::rounded_values
/// source   TensorFlow's fake_quant_with_min_max_vars
at::Tensor rounded_values(const PendingMap& input, const RoundingGrid& grid);

/// Its gradients.
/// gradient  like input.x
/// operator  osprey::rounded_values_backward
PendingGradients rounded_values_backward(const at::Tensor& gradient, const PendingMap& input, const RoundingGrid& grid);

}  // namespace osprey::kernels
