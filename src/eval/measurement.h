#pragma once
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "eval/explain.h"
#include "eval/findings.h"
#include "eval/gallery_ranking.h"

namespace osprey::eval {

/// Makes the result of an evaluation from what a detector did on its batches.
///
///     Measurement measurement(categories, options);
///     for each batch, in the order of the data set: measurement.add(findings)
///     EvaluationResult result = measurement.result(...)
class Measurement {
 public:
  Measurement(const std::vector<Category>& categories, const EvaluationOptions& options);

  void add(BatchFindings findings);

  /// regularization  the model's, part of Loss/total_loss
  /// num_skipped     records that could not be used
  /// num_examples    of the data set
  /// throws          DataError where images and skipped records do not add up to the data set
  EvaluationResult result(double regularization, int64_t num_skipped, int64_t num_examples) &&;

 private:
  /// An id of its own for each image: the record's, with a number where it is missing or not the only one.
  std::string unique(const std::string& id);
  std::vector<MetricValue> losses(double regularization) const;

  const EvaluationOptions& options_;
  std::set<int64_t> category_ids_;
  std::vector<std::unique_ptr<DetectionMetrics>> metrics_;
  Explainer explainer_;
  GalleryRanking gallery_;
  std::set<std::string> ids_;
  EvaluationResult result_;
  // Loss/* is the mean over batches, each normalised by itself.
  std::vector<MetricValue> losses_;
  double loss_weight_ = 0;
};

/// Detections of the classes that have a category; others are not shown anywhere.
ImageDetections of_categories(const ImageDetections& all, const std::set<int64_t>& ids);

/// The ids of categories.
std::set<int64_t> ids_of(const std::vector<Category>& categories);

}  // namespace osprey::eval
