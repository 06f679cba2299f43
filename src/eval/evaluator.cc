#include "osprey/eval/evaluator.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "eval/evaluation_picture.h"
#include "eval/findings.h"
#include "eval/gallery_picture.h"
#include "eval/image_results.h"
#include "eval/look.h"
#include "eval/measurement.h"

namespace osprey::eval {
namespace {

/// Evaluation mode, and back to what it was.
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

/// One pass of a detector over the batches of a source.
class Pass {
 public:
  Pass(models::DetectionModel& model, data::BatchSource& source, const std::vector<Category>& categories,
       const EvaluationOptions& options)
      : model_(model), source_(source), categories_(categories), options_(options), ids_(ids_of(categories)) {}

  /// Hands over the findings of each batch. false: `should_stop` has ended it early
  template <class Take>
  bool run(Take take) {
    source_.seek(0);
    for (int64_t index = 0;; ++index) {
      if (options_.should_stop && options_.should_stop()) return false;
      const std::optional<Batch> batch = source_.next();
      if (!batch) return true;
      take(findings(*batch, index));
      if (options_.progress) options_.progress(num_images_, source_.num_examples());
    }
  }

 private:
  BatchFindings findings(const Batch& batch, int64_t index) {
    BatchFindings result{.index = index};
    const bool by_batches = !options_.find && !options_.tiled;
    const Batch on_device = by_batches ? to(batch, options_.device) : Batch();
    const Look look = by_batches ? look_at(model_, on_device) : look_at_picture(batch);
    if (options_.compute_loss && by_batches && !options_.ignore_ground_truth) {
      const Losses losses = model_.loss(look.predictions, on_device);
      for (const LossTerm& term : losses.terms) result.losses.push_back({term.name, term.sum.item<double>()});
      if (losses.normalizer.defined()) result.normalizer = losses.normalizer.item<double>();
    }
    result.broken_images = look.broken_images;
    for (int64_t row = 0; row < batch.size(); ++row) {
      if (batch.image_weights.defined() && batch.image_weights[row].item<float>() == 0) continue;
      ImageFindings image{
          .row = row, .id = batch.ids.at(static_cast<size_t>(row)), .truth = ground_truth_of(batch, row)};
      image.found = detections_of(look.detections, row, static_cast<int64_t>(image.truth.height),
                                  static_cast<int64_t>(image.truth.width), image.not_finite);
      if (num_images_++ < options_.num_visualizations)
        image.picture =
            evaluation_picture(batch, row, image.truth, of_categories(image.found, ids_), categories_, options_);
      result.images.push_back(std::move(image));
    }
    return result;
  }

  Look look_at_picture(const Batch& picture) {
    if (!options_.find) return look_in_tiles(model_, picture, *options_.tiled, options_.device);
    return look_by(options_.find, picture, options_.tiled ? std::optional(options_.tiled->tiles) : std::nullopt);
  }

  models::DetectionModel& model_;
  data::BatchSource& source_;
  const std::vector<Category>& categories_;
  const EvaluationOptions& options_;
  std::set<int64_t> ids_;
  int64_t num_images_ = 0;
};

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
  Measurement measurement(categories, options);
  const bool whole = Pass(model, source, categories, options).run([&](BatchFindings findings) {
    measurement.add(std::move(findings));
  });
  if (!whole) return {.stopped = true};
  EvaluationResult result =
      std::move(measurement)
          .result(model.regularization_loss().item<double>(), source.num_skipped(), source.num_examples());
  if (options.tiled) result.tiles = options.tiled->tiles;
  draw_gallery(result.gallery, source, categories);
  return result;
}

std::optional<EvaluationResult> evaluate_share(models::DetectionModel& model, data::BatchSource& source,
                                               const std::vector<Category>& categories,
                                               const EvaluationOptions& options, const EvaluationGroup& group) {
  const torch::NoGradGuard no_grad;
  const EvaluationMode mode(model);
  ShareFindings own;
  own.stopped = !Pass(model, source, categories, options).run([&](BatchFindings findings) {
    findings.index = findings.index * group.num_shares + group.share;
    own.batches.push_back(std::move(findings));
  });
  if (own.stopped) own.batches.clear();
  own.num_skipped = source.num_skipped();
  const std::vector<std::string> shares = group.gather(to_bytes(own));
  if (group.share != 0) return std::nullopt;
  ShareFindings all;
  for (const std::string& bytes : shares) {
    ShareFindings share = findings_from(bytes);
    all.stopped = all.stopped || share.stopped;
    all.num_skipped += share.num_skipped;
    for (BatchFindings& findings : share.batches) all.batches.push_back(std::move(findings));
  }
  if (all.stopped) return EvaluationResult{.stopped = true};
  std::sort(all.batches.begin(), all.batches.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  Measurement measurement(categories, options);
  for (BatchFindings& findings : all.batches) measurement.add(std::move(findings));
  EvaluationResult result =
      std::move(measurement).result(model.regularization_loss().item<double>(), all.num_skipped, source.num_examples());
  if (options.gallery_images > 0) draw_gallery(result.gallery, group.whole_source(), categories);
  return result;
}

}  // namespace osprey::eval
