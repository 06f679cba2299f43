#pragma once
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/core/box.h"
#include "osprey/eval/evaluator.h"

namespace osprey::eval {

/// The picture of a row of a batch as the network saw it, without its padding, in the proportions of the original
/// (height, width in pixels) and large enough for captions: [H, W, 3] uint8.
at::Tensor picture_for_view(const Batch& batch, int64_t row, double height, double width);

/// A box as a fraction of a picture of so many pixels.
Box normalised(const BoxPx& box, double height, double width);

/// Detections left, ground truth right, on the `picture_for_view` of a row.
at::Tensor evaluation_picture(const Batch& batch, int64_t row, const ImageGroundTruth& truth,
                              const ImageDetections& found, const std::vector<Category>& categories,
                              const EvaluationOptions& options);

}  // namespace osprey::eval
