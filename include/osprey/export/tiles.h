#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "osprey/boxes/tiles.h"
#include "osprey/export/detector.h"

namespace osprey {

using boxes::merge_views;
using boxes::TileOptions;
using boxes::tiles_px;
using boxes::TileView;

/// The detections of a picture that is looked at in tiles, with a score of at least `min_score`, best first. Tiles
/// share batches of the size that the model was exported with.
/// image   [H, W, 3] uint8 RGB
/// throws  as `tiles_px` and `Detector::detect`
std::vector<Detection> detect_in_tiles(const Detector& detector, const at::Tensor& image, const TileOptions& options,
                                       double min_score = 0);

}  // namespace osprey
