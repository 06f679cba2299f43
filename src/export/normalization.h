#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "osprey/models/detection_model.h"
#include "osprey/nn/feature_extractor.h"

namespace osprey {

/// How a model normalises pictures, whose input has this height and width.
nn::Normalization normalization_of(models::DetectionModel& model, const std::array<int64_t, 2>& canvas);

/// The pixel that stands for zero, of two that are as near the larger one; nothing where channels differ, or where none
/// does.
std::optional<int64_t> pixel_of_zero(const nn::Normalization& normalization);

}  // namespace osprey
