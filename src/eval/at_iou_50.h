#pragma once
#include <cstdint>
#include <vector>

#include "osprey/eval/at_iou_50.h"
#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {

/// One class at IoU 0.5: the scores of the detections that count, best first, apart those that are right and those that
/// are not.
struct Verdicts {
  int64_t num_objects = 0;  ///< that have to be found
  std::vector<double> right = {}, wrong = {};
};

/// What counts of one class from a score up; nothing where the threshold is kNotAvailable.
DetectionCounts counts_from(const Verdicts& verdicts, double score_threshold);

/// images     as they were matched
/// verdicts   [K]
/// precision  [K][101] at COCO's recalls; empty for a class without objects
AtIou50 at_iou_50(const std::vector<CocoImage>& images, const std::vector<Verdicts>& verdicts,
                  std::vector<std::vector<double>> precision, int num_threads);

/// The operating point of it.
OperatingPoint best_operating_point(const std::vector<CocoImage>& images, const std::vector<Verdicts>& verdicts,
                                    int num_threads);

}  // namespace osprey::eval
