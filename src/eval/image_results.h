#pragma once
#include <cstdint>
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/core/detections.h"
#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// The annotations of row `row` of a batch (on the CPU), in pixels of the original picture. With k-hot classes a box
/// counts once for each of its classes.
ImageGroundTruth ground_truth_of(const Batch& batch, int64_t row);

/// The detections of a row, in pixels of the original picture (height, width). Rows with a value that is not finite are
/// left out and added to `num_not_finite`.
ImageDetections detections_of(const Detections& detections, int64_t row, int64_t height, int64_t width,
                              int64_t& num_not_finite);

}  // namespace osprey::eval
