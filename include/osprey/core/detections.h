#pragma once
#include <ATen/core/Tensor.h>

namespace osprey {

/// What a detector found, padded to a fixed number D of detections per image, best first.
struct Detections {
  at::Tensor boxes;    ///< [B, D, 4] float32, normalised to the un-padded picture; zero in padded rows
  at::Tensor scores;   ///< [B, D] float32
  at::Tensor classes;  ///< [B, D] int64, 0-based
  at::Tensor count;    ///< [B] int64: how many rows are real
};

}  // namespace osprey
