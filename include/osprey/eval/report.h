#pragma once
#include <string>

#include "osprey/eval/coco_metrics.h"
#include "osprey/eval/evaluator.h"

namespace osprey::eval {

/// COCO's evaluation of two files: what it found, in the form that programs print.
struct CocoReport {
  std::string summary;  ///< COCO's twelve lines, then the per-class table
  std::string json;     ///< as `metrics_json`, without a step
  std::vector<std::string> warnings;
  double read_seconds = 0, evaluate_seconds = 0;
};

/// Reads annotations and detections (COCO's JSON) and evaluates them.
/// throws DataError as `read_coco_files`
CocoReport evaluate_coco_files(const std::string& ground_truth, const std::string& detections, int num_threads = 0);

/// What a program prints on stdout: COCO's twelve lines where they were computed, else one line per metric; then the
/// per-class table.
std::string text_report(const EvaluationResult& result);

}  // namespace osprey::eval
