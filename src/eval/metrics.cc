#include "osprey/eval/metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string_view>

#include "eval/metrics_registry.h"
#include "osprey/base/error.h"

namespace osprey::eval {
namespace {

// Names of the OD API without an implementation here yet.
constexpr std::array<std::string_view, 9> kNotBuilt = {"coco_keypoint_metrics",
                                                       "coco_mask_metrics",
                                                       "coco_panoptic_metrics",
                                                       "coco_evaluation_all_frames",
                                                       "lvis_mask_metrics",
                                                       "oid_challenge_segmentation_metrics",
                                                       "open_images_V2_instance_segmentation_metrics",
                                                       "pascal_voc_instance_segmentation_metrics",
                                                       "weighted_pascal_voc_instance_segmentation_metrics"};

}  // namespace

std::map<std::string, MetricsFactory>& metrics_factories() {
  static std::map<std::string, MetricsFactory> factories;
  return factories;
}

bool register_metrics(const std::string& name, MetricsFactory factory) {
  return metrics_factories().emplace(name, std::move(factory)).second;
}

std::vector<std::string> known_metrics() {
  std::vector<std::string> names;
  for (const auto& entry : metrics_factories()) names.push_back(entry.first);
  return names;
}

std::unique_ptr<DetectionMetrics> make_metrics(const std::string& name, const std::vector<Category>& categories,
                                               const MetricsOptions& options) {
  const auto found = metrics_factories().find(name);
  if (found != metrics_factories().end()) return found->second(categories, options);
  const std::string known = fmt::format("{}", fmt::join(known_metrics(), ", "));
  if (std::find(kNotBuilt.begin(), kNotBuilt.end(), name) != kNotBuilt.end())
    throw ConfigError(
        fmt::format("this metric is not supported yet: eval_config.metrics_set \"{}\"; there are {}", name, known));
  throw ConfigError(fmt::format("eval_config.metrics_set: there is no metric \"{}\"; known are {}", name, known));
}

void check_image(const std::string& image_id, const ImageGroundTruth& truth, const ImageDetections& found) {
  auto check = [&](const char* list, size_t length, size_t boxes, bool optional) {
    if (length != boxes && !(optional && length == 0))
      throw DataError(fmt::format("image {}: {} has {} entries for {} boxes", image_id, list, length, boxes));
  };
  const size_t objects = truth.boxes_px.size(), detections = found.boxes_px.size();
  check("classes", truth.classes.size(), objects, false);
  check("is_crowd", truth.is_crowd.size(), objects, true);
  check("difficult", truth.difficult.size(), objects, true);
  check("group_of", truth.group_of.size(), objects, true);
  check("area", truth.area.size(), objects, true);
  check("detection scores", found.scores.size(), detections, false);
  check("detection classes", found.classes.size(), detections, false);
}

}  // namespace osprey::eval
