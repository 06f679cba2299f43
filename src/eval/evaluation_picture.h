#pragma once
#include <vector>

#include "osprey/core/batch.h"
#include "osprey/eval/evaluator.h"

namespace osprey::eval {

/// Detections left, ground truth right, on the picture of row `row` of a batch as the network saw it, without its
/// padding and in the original's proportions.
at::Tensor evaluation_picture(const Batch& batch, int64_t row, const ImageGroundTruth& truth,
                              const ImageDetections& found, const std::vector<Category>& categories,
                              const EvaluationOptions& options);

}  // namespace osprey::eval
