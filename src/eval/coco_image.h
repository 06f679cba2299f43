#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {

/// Category id -> index into the categories.
std::map<int64_t, int64_t> index_of(const std::vector<Category>& categories);

/// One image as COCO's evaluation sees it; annotations and detections of other classes are left out.
CocoImage coco_image(const ImageGroundTruth& truth, const ImageDetections& found,
                     const std::map<int64_t, int64_t>& index);

}  // namespace osprey::eval
