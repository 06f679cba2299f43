#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "osprey/boxes/builder.h"
#include "osprey/protos/calibration.pb.h"
#include "osprey/protos/post_processing.pb.h"

namespace osprey::boxes {
namespace {

CalibrationCurve curve(const config::ConfigNode<proto::XYPairs>& cfg) {
  CalibrationCurve result;
  for (const auto& pair : cfg->x_y_pair()) {
    if (!result.x.empty() && !(pair.x() > result.x.back())) cfg.fail("x_y_pair", "x must ascend");
    result.x.push_back(pair.x());
    result.y.push_back(pair.y());
  }
  if (result.x.empty()) cfg.fail("x_y_pair", "must name at least one point");
  return result;
}

void read_calibration(const config::ConfigNode<proto::CalibrationConfig>& cfg, ScoreOptions& options) {
  switch (cfg->calibrator_case()) {
    case proto::CalibrationConfig::kFunctionApproximation: {
      const auto node = cfg.child("function_approximation", cfg->function_approximation());
      options.curve = curve(node.child("x_y_pairs", node->x_y_pairs()));
      return;
    }
    case proto::CalibrationConfig::kClassIdFunctionApproximations: {
      const auto node = cfg.child("class_id_function_approximations", cfg->class_id_function_approximations());
      for (const auto& [id, pairs] : node->class_id_xy_pairs_map()) {
        if (id < 0 || id > 1'000'000)
          node.fail("class_id_xy_pairs_map", "class id " + std::to_string(id) + " is out of range");
        options.class_curves.resize(std::max(options.class_curves.size(), static_cast<size_t>(id) + 1));
        options.class_curves[id] = curve(node.child("class_id_xy_pairs_map", pairs));
      }
      return;
    }
    case proto::CalibrationConfig::kTemperatureScalingCalibration: {
      const auto node = cfg.child("temperature_scaling_calibration", cfg->temperature_scaling_calibration());
      if (!(node->scaler() > 0)) node.fail("scaler", "must be > 0, got " + std::to_string(node->scaler()));
      options.temperature = node->scaler();
      return;
    }
    case proto::CalibrationConfig::kSigmoidCalibration:
      cfg.unsupported("sigmoid_calibration");
    case proto::CalibrationConfig::kClassIdSigmoidCalibrations:
      cfg.unsupported("class_id_sigmoid_calibrations");
    case proto::CalibrationConfig::CALIBRATOR_NOT_SET:
      cfg.fail("", "no calibrator is chosen");
  }
}

/// With static shapes an overlap of exactly the threshold suppresses, too, and a threshold of 0 nothing, unless
/// suppression is partitioned.
float iou_threshold_of(const proto::BatchNonMaxSuppression& cfg) {
  const float given = cfg.iou_threshold();
  if (!cfg.use_static_shapes() || cfg.use_combined_nms() || cfg.soft_nms_sigma() > 0) return given;
  if (given > 0) return std::nextafter(given, 0.0f);
  return cfg.use_partitioned_nms() ? 0 : std::numeric_limits<float>::infinity();
}

}  // namespace

NmsOptions build_nms_options(const config::ConfigNode<proto::BatchNonMaxSuppression>& cfg) {
  // NaN fails these comparisons too.
  if (!(cfg->iou_threshold() >= 0 && cfg->iou_threshold() <= 1))
    cfg.fail("iou_threshold", "must be in [0, 1], got " + std::to_string(cfg->iou_threshold()));
  if (!(cfg->soft_nms_sigma() >= 0))
    cfg.fail("soft_nms_sigma", "must be >= 0, got " + std::to_string(cfg->soft_nms_sigma()));
  if (cfg->max_detections_per_class() < 1)
    cfg.fail("max_detections_per_class", "must be >= 1, got " + std::to_string(cfg->max_detections_per_class()));
  if (cfg->max_total_detections() < cfg->max_detections_per_class())
    cfg.fail("max_total_detections", "must be >= max_detections_per_class (" +
                                         std::to_string(cfg->max_detections_per_class()) + "), got " +
                                         std::to_string(cfg->max_total_detections()));
  if (cfg->use_combined_nms() && cfg->use_class_agnostic_nms())
    cfg.fail("use_combined_nms", "cannot be combined with use_class_agnostic_nms");
  if (cfg->use_combined_nms() && cfg->soft_nms_sigma() > 0)
    cfg.fail("use_combined_nms", "cannot be combined with soft_nms_sigma > 0");
  if (cfg->use_hard_nms() && cfg->soft_nms_sigma() > 0)
    cfg.fail("use_hard_nms", "cannot be combined with soft_nms_sigma > 0");
  if (cfg->max_classes_per_detection() < 1)
    cfg.fail("max_classes_per_detection", "must be >= 1, got " + std::to_string(cfg->max_classes_per_detection()));
  if (cfg->use_class_agnostic_nms() && cfg->max_classes_per_detection() > 1)
    cfg.unsupported("max_classes_per_detection");

  // use_partitioned_nms and use_cpu_nms choose among implementations of the original that give the same detections.
  NmsOptions options;
  options.score_threshold = cfg->score_threshold();
  options.iou_threshold = iou_threshold_of(*cfg);
  options.max_detections_per_class = cfg->max_detections_per_class();
  options.max_total_detections = cfg->max_total_detections();
  options.soft_nms_sigma = cfg->soft_nms_sigma();
  options.class_agnostic = cfg->use_class_agnostic_nms();
  options.change_coordinate_frame = cfg->change_coordinate_frame();
  options.combined = cfg->use_combined_nms();
  options.padding_score = cfg->use_static_shapes() && !cfg->use_combined_nms() ? -1.0f : 0.0f;
  return options;
}

PostProcessor build_post_processor(const config::ConfigNode<proto::PostProcessing>& cfg) {
  const NmsOptions nms = build_nms_options(cfg.child("batch_non_max_suppression", cfg->batch_non_max_suppression()));
  ScoreOptions scores;
  switch (cfg->score_converter()) {
    case proto::PostProcessing::IDENTITY:
      scores.converter = ScoreConverter::kIdentity;
      break;
    case proto::PostProcessing::SIGMOID:
      scores.converter = ScoreConverter::kSigmoid;
      break;
    case proto::PostProcessing::SOFTMAX:
      scores.converter = ScoreConverter::kSoftmax;
      break;
  }
  if (!(cfg->logit_scale() > 0)) cfg.fail("logit_scale", "must be > 0, got " + std::to_string(cfg->logit_scale()));
  scores.logit_scale = cfg->logit_scale();
  if (cfg->has_calibration_config())
    read_calibration(cfg.child("calibration_config", cfg->calibration_config()), scores);
  return PostProcessor(nms, scores);
}

}  // namespace osprey::boxes
