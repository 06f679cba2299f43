#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "osprey/core/box.h"

namespace osprey {

/// What a detector found, padded to a fixed number D of detections per image, best first.
struct Detections {
  at::Tensor boxes;    ///< [B, D, 4] float32, normalised to the un-padded picture; zero in padded rows
  at::Tensor scores;   ///< [B, D] float32
  at::Tensor classes;  ///< [B, D] int64, 0-based
  at::Tensor count;    ///< [B] int64: how many rows are real
};

/// One object that a detector found.
struct Detection {
  Box box;                 ///< normalised to the picture
  float score = 0;         ///< in [0, 1] for sigmoid and softmax models
  int64_t class_id = 0;    ///< as in the label map, from 1
  std::string class_name;  ///< display name of the label map; the id as text where there is none
};

}  // namespace osprey
