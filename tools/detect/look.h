#pragma once
#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "osprey/export/detector.h"
#include "osprey/export/tiles.h"

namespace osprey::tools {

using boxes::Find;

/// Looks with a detector, which has to outlive what is returned.
/// tiles   side_px 0: the pictures are looked at as a whole only
/// throws  DataError where a picture has too many tiles
Find find_with(const Detector& detector, const TileOptions& tiles, double min_score);

/// A list of objects with "class_id", "class", "score" and "box" ([ymin, xmin, ymax, xmax], normalised).
nlohmann::ordered_json detections_json(const std::vector<Detection>& found);

/// A copy of the picture with all that was found on it.
at::Tensor drawn(const at::Tensor& picture, const std::vector<Detection>& found);

}  // namespace osprey::tools
