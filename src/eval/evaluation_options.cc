#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "osprey/eval/evaluator.h"

namespace osprey::eval {
namespace {

// The colours that `groundtruth_box_visualization_color` may name.
std::array<uint8_t, 3> color_of(const config::ConfigNode<proto::EvalConfig>& config) {
  static const std::map<std::string, std::array<uint8_t, 3>> colors = {
      {"black", {0, 0, 0}},       {"white", {255, 255, 255}}, {"red", {255, 0, 0}},      {"green", {0, 128, 0}},
      {"lime", {0, 255, 0}},      {"blue", {0, 0, 255}},      {"yellow", {255, 255, 0}}, {"cyan", {0, 255, 255}},
      {"magenta", {255, 0, 255}}, {"orange", {255, 165, 0}},  {"grey", {128, 128, 128}}, {"gray", {128, 128, 128}}};
  const auto found = colors.find(config->groundtruth_box_visualization_color());
  if (found != colors.end()) return found->second;
  std::string known;
  for (const auto& entry : colors) known += (known.empty() ? "" : ", ") + entry.first;
  config.fail("groundtruth_box_visualization_color", "must be one of " + known);
}

}  // namespace

EvaluationOptions evaluation_options(const config::ConfigNode<proto::EvalConfig>& config,
                                     const std::string& default_metric) {
  if (config->skip_predictions_for_unlabeled_class()) config.unsupported("skip_predictions_for_unlabeled_class");
  if (config->retain_original_image_additional_channels())
    config.unsupported("retain_original_image_additional_channels");
  auto fraction = [&](const char* field, float value) {
    if (!(value >= 0 && value <= 1)) config.fail(field, fmt::format("must be in [0, 1], got {}", value));
    return static_cast<double>(value);
  };
  EvaluationOptions options;
  options.metrics_set = {default_metric};
  if (config->metrics_set_size() > 0)
    options.metrics_set.assign(config->metrics_set().begin(), config->metrics_set().end());
  options.metrics.include_metrics_per_category = config->include_metrics_per_category();
  options.metrics.all_metrics_per_category = config->all_metrics_per_category();
  options.metrics.super_categories.insert(config->super_categories().begin(), config->super_categories().end());
  options.metrics.recall_lower_bound = fraction("recall_lower_bound", config->recall_lower_bound());
  options.metrics.recall_upper_bound = fraction("recall_upper_bound", config->recall_upper_bound());
  options.num_visualizations = config->num_visualizations();
  options.min_score_threshold = fraction("min_score_threshold", config->min_score_threshold());
  if (config->max_num_boxes_to_visualize() < 0)
    config.fail("max_num_boxes_to_visualize",
                fmt::format("must be >= 0, got {}", config->max_num_boxes_to_visualize()));
  options.max_num_boxes_to_visualize = config->max_num_boxes_to_visualize();
  options.skip_scores = config->skip_scores();
  options.skip_labels = config->skip_labels();
  options.visualize_ground_truth = config->visualize_groundtruth_boxes();
  if (options.visualize_ground_truth) options.ground_truth_color = color_of(config);
  options.compute_loss = !config->use_dummy_loss_in_eval();
  options.ignore_ground_truth = config->ignore_groundtruth();
  options.detections_file = config->export_path();
  options.visualization_dir = config->visualization_export_dir();
  options.visualization_by_image_id = config->keep_image_id_for_visualization_export();
  options.gallery_images = config->gallery_images();
  if (options.gallery_images > 0) {
    const auto& metrics = options.metrics_set;
    if (options.ignore_ground_truth)
      config.fail("gallery_images", "there are no errors to show with ignore_groundtruth");
    if (std::find(metrics.begin(), metrics.end(), "coco_detection_metrics") == metrics.end())
      config.fail("gallery_images",
                  "needs coco_detection_metrics, whose operating point decides what is an error, in metrics_set");
    constexpr int64_t kMost = 200;
    if (options.gallery_images > kMost)
      config.fail("gallery_images", fmt::format("must be <= {}, got {}", kMost, options.gallery_images));
  }
  for (int i = 0; i < config->metrics_set_size(); ++i) {
    try {
      make_metrics(config->metrics_set(i), {});
    } catch (const ConfigError& error) {
      config.fail(fmt::format("metrics_set[{}]", i), error.what());
    }
  }
  return options;
}

}  // namespace osprey::eval
