#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/eval/at_iou_50.h"
#include "osprey/eval/metrics.h"

namespace osprey::eval {

/// One image as COCO's evaluation sees it; boxes are [x, y, width, height] in pixels, as in COCO's files.
struct CocoImage {
  struct Object {
    std::array<double, 4> box_xywh;
    double area;       ///< decides about small, medium, large
    int64_t category;  ///< index into the categories
    bool is_crowd = false;
    bool id_is_zero = false;  ///< pycocotools takes a match with the annotation of id 0 for none, and so do we
  };
  struct Detection {
    std::array<double, 4> box_xywh;
    double score;
    int64_t category;  ///< index into the categories
  };
  std::vector<Object> objects;
  std::vector<Detection> detections;
};

/// COCO's twelve numbers in the order of its summary: AP, AP50, AP75, AP small, medium, large, AR@1, @10, @100, AR
/// small, medium, large. kNotAvailable where pycocotools has -1.
using CocoStats = std::array<double, 12>;

struct CocoResult {
  CocoStats stats;
  std::vector<CocoStats> per_category;    ///< [K] the same twelve of each category alone
  std::vector<int64_t> num_ground_truth;  ///< [K] objects that are not crowds
  std::vector<int64_t> num_detections;    ///< [K] as given
  AtIou50 at_iou_50;                      ///< precision-recall curves, right, wrong and missed, confusions
};

/// COCO's evaluation of boxes, equal to pycocotools' COCOeval (crowds, area ranges, 1/10/100 detections, the order of
/// ties).
///
/// images          in the order of their ids, which decides between equal scores
/// num_categories  K
/// num_threads     0: one per core; the result does not depend on it
/// source          cocodataset/cocoapi, PythonAPI/pycocotools/cocoeval.py
CocoResult evaluate_coco(const std::vector<CocoImage>& images, int64_t num_categories, int num_threads = 0);

/// "mAP", "mAP@.50IOU", ..., with the prefix of TensorBoard's tags: "DetectionBoxes_Precision/mAP".
const std::array<std::string, 12>& coco_metric_names();

/// COCO's block of twelve lines, " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.245",
/// character for character as pycocotools prints it (a value that does not exist is -1.000).
std::string coco_summary(const CocoStats& stats);

/// A table with one line per class: AP, AP50, AR, objects, detections; "n/a" where a value does not exist. With `at`,
/// of the same classes, also precision, recall and F1 at its operating point, which a line below names.
std::string per_class_table(const std::vector<ClassMetrics>& rows, const AtIou50* at = nullptr);

/// Ground truth and detections read from COCO's JSON files.
struct CocoFiles {
  std::vector<Category> categories;  ///< by id
  std::vector<CocoImage> images;     ///< by id
  int64_t num_detections = 0;
  int64_t num_foreign_detections = 0;  ///< of categories that the ground truth lacks; left out
  std::vector<std::string> warnings;
};

/// Reads an annotation file and a results file.
/// throws DataError with the file, what was expected and what was found
CocoFiles read_coco_files(const std::string& ground_truth, const std::string& detections);

/// Rows of the per-class table from a result.
std::vector<ClassMetrics> per_class_rows(const CocoResult& result, const std::vector<Category>& categories);

}  // namespace osprey::eval
