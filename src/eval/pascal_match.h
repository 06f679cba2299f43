#pragma once
#include <cstdint>
#include <vector>

#include "osprey/eval/pascal_metrics.h"

namespace osprey::eval {

/// A detection that counts: `worth` is 1 for a found object, 0 for a false alarm, the group's weight for a found group.
struct ScoredLabel {
  double score = 0, worth = 0;
};

/// One class in one image (or, summed, in all).
struct ClassCell {
  std::vector<ScoredLabel> labels;
  double num_objects = 0;  ///< objects to be found; a group counts its weight
  int64_t num_detections = 0;
};

/// Matches the detections of a class with its objects, best score first: each goes to the object it overlaps most, and
/// an object is found once. Detections on difficult objects, and those inside a group-of box, leave the count.
ClassCell match_class(const ImageGroundTruth& truth, const ImageDetections& found, int64_t category,
                      const PascalOptions& options);

}  // namespace osprey::eval
