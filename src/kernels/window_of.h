#pragma once
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

/// A window from the arguments of an operator; throws c10::Error where they are none.
/// padding  top, bottom, left, right
inline SlidingWindow window_of(int64_t stride, c10::IntArrayRef padding) {
  TORCH_CHECK(stride > 0 && padding.size() == 4, "a window has a stride > 0 and four paddings");
  return {stride, {padding[0], padding[1], padding[2], padding[3]}};
}

}  // namespace osprey::kernels
