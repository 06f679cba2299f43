#pragma once
#include <cstdint>
#include <vector>

#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {

/// A detection and the object it took, as indices into the image's lists.
struct BoxMatch {
  int detection = -1;  ///< -1: the object was missed
  int object = -1;     ///< -1: the detection took none, it is in the background
};

/// Matches one image across all classes, as `OperatingPoint::confusion` says: detections from the threshold up, best
/// first, then what was missed. Who is not in the list counts neither way: crowds, detections in a crowd of their
/// class, those beyond the hundred best of a class, those below the threshold (all where that is kNotAvailable).
std::vector<BoxMatch> match_boxes(const CocoImage& image, int64_t num_categories, double score_threshold);

}  // namespace osprey::eval
