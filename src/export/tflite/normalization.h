#pragma once
#include <array>
#include <cstdint>

#include "osprey/models/detection_model.h"

namespace osprey::tflite {

/// How a model normalises pictures: scale * pixel + offset, for each channel.
struct Normalization {
  std::array<float, 3> scale, offset;

  bool is_of_all_channels() const {
    return scale[0] == scale[1] && scale[0] == scale[2] && offset[0] == offset[1] && offset[0] == offset[2];
  }
};

/// That of a model whose input has this height and width.
Normalization normalization_of(models::DetectionModel& model, const std::array<int64_t, 2>& canvas);

}  // namespace osprey::tflite
