#include "osprey/eval/evaluator.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "eval/evaluation_picture.h"
#include "eval/explain.h"
#include "eval/image_results.h"
#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

// Evaluation mode, and back to what it was.
class EvaluationMode {
 public:
  explicit EvaluationMode(models::DetectionModel& model) : model_(model), was_training_(model.is_training()) {
    model.eval();
  }
  ~EvaluationMode() { model_.train(was_training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  models::DetectionModel& model_;
  bool was_training_;
};

// Loss/* over all batches: sums and normaliser are added up, then divided once.
class LossSums {
 public:
  void add(const Losses& losses) {
    for (const LossTerm& term : losses.terms) {
      auto found =
          std::find_if(sums_.begin(), sums_.end(), [&](const MetricValue& sum) { return sum.name == term.name; });
      if (found == sums_.end()) found = sums_.insert(sums_.end(), {term.name, 0});
      found->value += term.sum.item<double>();
    }
    if (losses.normalizer.defined()) normalizer_ += losses.normalizer.item<double>();
    normalized_ = losses.normalizer.defined();
    ++batches_;
  }

  std::vector<MetricValue> values(double regularization) const {
    if (batches_ == 0) return {};
    std::vector<MetricValue> values = sums_;
    double total = regularization;
    for (MetricValue& value : values) {
      value.value /= normalized_ ? std::max(normalizer_, 1.0) : static_cast<double>(batches_);
      total += value.value;
    }
    if (regularization != 0) values.push_back({"Loss/regularization_loss", regularization});
    values.push_back({"Loss/total_loss", total});
    return values;
  }

 private:
  std::vector<MetricValue> sums_;
  double normalizer_ = 0;
  bool normalized_ = false;
  int64_t batches_ = 0;
};

// Each image needs an id of its own: the record's, with a number where it is missing or not the only one.
class UniqueIds {
 public:
  std::string of(const std::string& id, int64_t index) {
    std::string own = id.empty() ? fmt::format("image_{:06d}", index) : id;
    if (!seen_.insert(own).second) {
      own = fmt::format("{}#{}", own, index);
      seen_.insert(own);
    }
    return own;
  }

 private:
  std::set<std::string> seen_;
};

// Detections of classes without a category are not shown anywhere.
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

}  // namespace

double EvaluationResult::value(const std::string& name) const {
  for (const MetricValue& metric : metrics)
    if (metric.name == name) return metric.value;
  return kNotAvailable;
}

EvaluationResult evaluate(models::DetectionModel& model, data::BatchSource& source,
                          const std::vector<Category>& categories, const EvaluationOptions& options) {
  const torch::NoGradGuard no_grad;  // not inference mode: what the model keeps, such as anchors, goes on to training
  const EvaluationMode mode(model);
  std::vector<std::unique_ptr<DetectionMetrics>> metrics;
  if (!options.ignore_ground_truth)
    for (const std::string& name : options.metrics_set)
      metrics.push_back(make_metrics(name, categories, options.metrics));
  std::set<int64_t> category_ids;
  for (const Category& category : categories) category_ids.insert(category.id);

  EvaluationResult result;
  Explainer explainer(categories);
  LossSums losses;
  UniqueIds ids;
  const int64_t total = source.num_examples(), skipped_before = source.num_skipped();
  source.seek(0);
  for (int64_t batch_index = 0;; ++batch_index) {
    if (options.should_stop && options.should_stop()) {
      result.stopped = true;
      return result;
    }
    const std::optional<Batch> batch = source.next();
    if (!batch) break;
    const Batch on_device = to(*batch, options.device);
    const Predictions predictions = model.predict(model.preprocess(on_device));
    if (options.compute_loss && !options.ignore_ground_truth) losses.add(model.loss(predictions, on_device));
    if (predictions.class_logits.defined())
      explainer.add_broken_images(
          predictions.class_logits.isfinite().flatten(1).all(1).logical_not().sum().item<int64_t>());
    Detections detections = model.postprocess(predictions, on_device.true_shapes);
    detections = {detections.boxes.cpu(), detections.scores.cpu(), detections.classes.cpu(), detections.count.cpu()};
    for (int64_t row = 0; row < batch->size(); ++row) {
      if (batch->image_weights.defined() && batch->image_weights[row].item<float>() == 0) continue;
      const ImageGroundTruth truth = ground_truth_of(*batch, row);
      int64_t not_finite = 0;
      const ImageDetections all = detections_of(detections, row, static_cast<int64_t>(truth.height),
                                                static_cast<int64_t>(truth.width), not_finite);
      const ImageDetections found = of_categories(all, category_ids);
      const std::string id = ids.of(batch->ids.at(row), result.num_images);
      for (const auto& metric : metrics) metric->add_image(id, truth, found);
      explainer.add_image(truth, all);
      explainer.add_not_finite(not_finite);
      if (result.num_images < options.num_visualizations)
        result.pictures.push_back({fmt::format("eval_side_by_side_{}_{}", batch_index, row), id,
                                   evaluation_picture(*batch, row, truth, found, categories, options)});
      result.detections.push_back({id, found});
      ++result.num_images;
    }
    if (options.progress) options.progress(result.num_images, total);
  }

  result.num_skipped = source.num_skipped() - skipped_before;
  if (result.num_images + result.num_skipped != total)
    throw DataError(fmt::format("evaluation saw {} images and skipped {}, but the data set has {}", result.num_images,
                                result.num_skipped, total));
  for (const auto& metric : metrics) {
    const std::vector<MetricValue> values = metric->values();
    result.metrics.insert(result.metrics.end(), values.begin(), values.end());
  }
  if (!metrics.empty()) result.per_class = metrics.front()->per_class();
  if (!result.metrics.empty() && !(result.metrics.front().value > 0))
    result.explanations = explainer.causes(options.min_score_threshold);
  const std::vector<MetricValue> loss_values = losses.values(model.regularization_loss().item<double>());
  result.metrics.insert(result.metrics.end(), loss_values.begin(), loss_values.end());
  result.num_ground_truth = explainer.num_objects();
  result.num_detections = explainer.num_detections();
  return result;
}

}  // namespace osprey::eval
