#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

#include "osprey/export/detector.h"
#include "osprey/export/tiles.h"

namespace osprey::tools {

/// What is found on each of some pictures, [H, W, 3] uint8 RGB, in their order.
using Find = std::function<std::vector<std::vector<Detection>>(const std::vector<at::Tensor>& pictures)>;

/// Looks with a detector, which has to outlive what is returned.
/// tiles   side_px 0: the pictures are looked at as a whole only
/// throws  DataError where a picture has too many tiles
Find find_with(const Detector& detector, const TileOptions& tiles, double min_score);

/// A list of objects with "class_id", "class", "score" and "box" ([ymin, xmin, ymax, xmax], normalised).
nlohmann::ordered_json detections_json(const std::vector<Detection>& found);

/// A copy of the picture with all that was found on it.
at::Tensor drawn(const at::Tensor& picture, const std::vector<Detection>& found);

}  // namespace osprey::tools
