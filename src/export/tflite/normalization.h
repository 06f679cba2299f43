#pragma once
#include <array>
#include <cstdint>

#include "osprey/models/detection_model.h"
#include "osprey/nn/feature_extractor.h"

namespace osprey::tflite {

/// How a model normalises pictures, whose input has this height and width.
nn::Normalization normalization_of(models::DetectionModel& model, const std::array<int64_t, 2>& canvas);

}  // namespace osprey::tflite
