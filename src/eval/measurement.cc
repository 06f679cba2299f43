#include "eval/measurement.h"

#include <fmt/format.h>

#include <algorithm>

#include "osprey/base/error.h"

namespace osprey::eval {

std::set<int64_t> ids_of(const std::vector<Category>& categories) {
  std::set<int64_t> ids;
  for (const Category& category : categories) ids.insert(category.id);
  return ids;
}

ImageDetections of_categories(const ImageDetections& all, const std::set<int64_t>& ids) {
  ImageDetections kept;
  for (size_t d = 0; d < all.boxes_px.size(); ++d) {
    if (!ids.count(all.classes[d])) continue;
    kept.boxes_px.push_back(all.boxes_px[d]);
    kept.scores.push_back(all.scores[d]);
    kept.classes.push_back(all.classes[d]);
  }
  return kept;
}

Measurement::Measurement(const std::vector<Category>& categories, const EvaluationOptions& options)
    : options_(options), category_ids_(ids_of(categories)), explainer_(categories), gallery_(categories) {
  if (options.ignore_ground_truth) return;
  for (const std::string& name : options.metrics_set)
    metrics_.push_back(make_metrics(name, categories, options.metrics));
}

void Measurement::add(BatchFindings findings) {
  // A sum that matches normalise is of no size of its own: a batch of fewer images, the last one, weighs less.
  const bool normalized = findings.normalizer.has_value();
  const double weight = normalized ? static_cast<double>(findings.images.size()) : 1;
  for (const MetricValue& loss : findings.losses) {
    auto found =
        std::find_if(losses_.begin(), losses_.end(), [&](const MetricValue& other) { return other.name == loss.name; });
    if (found == losses_.end()) found = losses_.insert(losses_.end(), {loss.name, 0});
    found->value += weight * loss.value / (normalized ? std::max(*findings.normalizer, 1.0) : 1);
  }
  if (!findings.losses.empty()) loss_weight_ += weight;
  explainer_.add_broken_images(findings.broken_images);
  for (ImageFindings& image : findings.images) {
    ImageDetections found = of_categories(image.found, category_ids_);
    const std::string id = unique(image.id);
    for (const auto& metric : metrics_) metric->add_image(id, image.truth, found);
    if (options_.gallery_images > 0)
      gallery_.add({.id = id,
                    .batch = findings.index,
                    .row = image.row,
                    .height = image.truth.height,
                    .width = image.truth.width},
                   image.truth, found);
    explainer_.add_image(image.truth, image.found);
    explainer_.add_not_finite(image.not_finite);
    if (result_.num_images < options_.num_visualizations)
      result_.pictures.push_back(
          {fmt::format("eval_side_by_side_{}_{}", findings.index, image.row), id, std::move(image.picture)});
    result_.detections.push_back({id, std::move(found)});
    ++result_.num_images;
  }
}

std::string Measurement::unique(const std::string& id) {
  std::string own = id.empty() ? fmt::format("image_{:06d}", result_.num_images) : id;
  if (!ids_.insert(own).second) {
    own = fmt::format("{}#{}", own, result_.num_images);
    ids_.insert(own);
  }
  return own;
}

std::vector<MetricValue> Measurement::losses(double regularization) const {
  if (loss_weight_ == 0) return {};
  std::vector<MetricValue> values = losses_;
  double total = regularization;
  for (MetricValue& value : values) {
    value.value /= loss_weight_;
    total += value.value;
  }
  if (regularization != 0) values.push_back({"Loss/regularization_loss", regularization});
  values.push_back({"Loss/total_loss", total});
  return values;
}

EvaluationResult Measurement::result(double regularization, int64_t num_skipped, int64_t num_examples) && {
  result_.num_skipped = num_skipped;
  if (result_.num_images + num_skipped != num_examples)
    throw DataError(fmt::format("evaluation saw {} images and skipped {}, but the data set has {}", result_.num_images,
                                num_skipped, num_examples));
  for (const auto& metric : metrics_) {
    const std::vector<MetricValue> values = metric->values();
    result_.metrics.insert(result_.metrics.end(), values.begin(), values.end());
    const AtIou50* at = metric->at_iou_50();
    if (at != nullptr && !result_.at_iou_50) result_.at_iou_50 = *at;
  }
  if (options_.gallery_images > 0) {
    TORCH_CHECK(result_.at_iou_50, "a gallery needs coco_detection_metrics");
    result_.gallery =
        std::move(gallery_).chosen(result_.at_iou_50->operating_point.score_threshold, options_.gallery_images);
  }
  if (!metrics_.empty()) result_.per_class = metrics_.front()->per_class();
  if (!result_.metrics.empty() && !(result_.metrics.front().value > 0))
    result_.explanations = explainer_.causes(options_.min_score_threshold);
  const std::vector<MetricValue> loss_values = losses(regularization);
  result_.metrics.insert(result_.metrics.end(), loss_values.begin(), loss_values.end());
  result_.num_ground_truth = explainer_.num_objects();
  result_.num_detections = explainer_.num_detections();
  return std::move(result_);
}

}  // namespace osprey::eval
