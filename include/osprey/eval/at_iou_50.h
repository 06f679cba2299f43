#pragma once
#include <cstdint>
#include <vector>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// Detections that are right (they are matched with an object), detections that are wrong, and missed objects.
struct DetectionCounts {
  int64_t true_positives = 0, false_positives = 0, false_negatives = 0;

  DetectionCounts& operator+=(const DetectionCounts& other);
  double precision() const;  ///< of the detections, those that are right; kNotAvailable without detections
  double recall() const;     ///< of the objects, those that are found; kNotAvailable without objects
  double f1() const;         ///< harmonic mean of the two, 0 where nothing is right; kNotAvailable without objects
};

/// Precision of one class at COCO's 101 recalls 0, 0.01, ..., 1. Both lists are empty for a class without objects.
struct PrecisionRecall {
  std::vector<double> precision;  ///< the best at this recall or a higher one; 0 where it is not reached
  std::vector<double> score;      ///< the highest threshold that reaches it, with something right at recall 0;
                                  ///< kNotAvailable where none does
};

/// What a detector does at one score threshold: the detections with at least this score, the others left out.
struct OperatingPoint {
  double score_threshold = kNotAvailable;  ///< kNotAvailable where no detection counts
  DetectionCounts all;                     ///< the sum over the classes
  std::vector<DetectionCounts> per_category;

  /// [K + 1, K + 1] row: class of the object, K for background (there is none); column: class of the detection, K for
  /// missed.
  ///
  /// Best score first, each detection takes the free object, of any class, that it overlaps most, by at least 0.5; of
  /// equal overlaps one of its own class, then the last. What matches no object but lies in a crowd of its own class is
  /// left out, as are crowds. So an object that is taken by a better detection of another class is not in the diagonal
  /// though COCO, which matches class by class, counts it as found.
  /// source  fiftyone/utils/eval/coco.py of voxel51/fiftyone, classwise=False, whose order among equals is another
  std::vector<std::vector<int64_t>> confusion;
};

/// COCO's matches at IoU 0.5 in detail: objects of all sizes, at most 100 detections per class and image, crowds
/// neither right nor wrong.
struct AtIou50 {
  std::vector<PrecisionRecall> precision_recall;  ///< [K]
  std::vector<double> mean_precision;  ///< [101] of the classes that have objects, its mean is AP50; empty without any

  /// Where F1 of all classes' counts together is largest; of equals the lowest threshold. Where nothing is right, that
  /// is all detections.
  OperatingPoint operating_point;

  static constexpr int kScores = 101;
  std::vector<std::vector<DetectionCounts>> at_scores;  ///< [K][kScores] with the thresholds 0, 0.01, ..., 1
};

/// 0, 0.01, ..., 1 as numpy.linspace rounds them.
std::vector<double> coco_recalls();

}  // namespace osprey::eval
