#pragma once
#include <memory>
#include <string>
#include <vector>

#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// The average precisions that follow Pascal VOC's evaluation: one IoU threshold, difficult objects left aside, groups.
struct PascalOptions {
  std::string prefix = "PascalBoxes";  ///< of the names: "PascalBoxes_Precision/mAP@0.5IOU"
  double iou_threshold = 0.5;
  bool use_difficult = true;            ///< false: difficult objects count like any other
  bool weighted_mean = false;           ///< pools the detections of all classes instead of averaging the classes' AP
  bool use_group_of = false;            ///< Open Images: a group-of box absorbs what lies in it
  double group_of_weight = 0;           ///< what finding a group-of box is worth; 0: neither gain nor loss
  bool only_annotated_classes = false;  ///< leaves out detections of classes that neither a box nor a label of the
                                        ///< whole picture has
  bool use_recall_bounds = false;       ///< mean precision inside the recall range below
  double recall_lower_bound = 0, recall_upper_bound = 1;
};

/// Builds a metric of the Pascal family directly; `make_metrics` does so by name.
/// source  Everingham et al., "The Pascal Visual Object Classes Challenge", section 4.2, area under the curve of all
/// points (VOC 2010);
///         Open Images: Kuznetsova et al., "The Open Images Dataset V4", section 7.1
std::unique_ptr<DetectionMetrics> make_pascal_metrics(const std::vector<Category>& categories,
                                                      const PascalOptions& options = {});

}  // namespace osprey::eval
