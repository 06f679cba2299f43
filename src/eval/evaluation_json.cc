#include "eval/evaluation_json.h"

#include <cmath>

namespace osprey::eval {
namespace {

nlohmann::ordered_json number(double value) { return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr; }

}  // namespace

nlohmann::ordered_json evaluation_json(const std::vector<MetricValue>& metrics,
                                       const std::vector<ClassMetrics>& per_class, int64_t num_images,
                                       int64_t num_skipped, std::optional<int64_t> step) {
  nlohmann::ordered_json json;
  if (step) json["step"] = *step;
  json["metrics"] = nlohmann::ordered_json::object();
  for (const MetricValue& metric : metrics) json["metrics"][metric.name] = number(metric.value);
  json["per_class"] = nlohmann::ordered_json::array();
  for (const ClassMetrics& row : per_class)
    json["per_class"].push_back({{"id", row.category.id},
                                 {"name", row.category.name},
                                 {"AP", number(row.ap)},
                                 {"AP50", number(row.ap50)},
                                 {"AR", number(row.ar)},
                                 {"num_ground_truth", row.num_ground_truth},
                                 {"num_detections", row.num_detections}});
  json["num_images"] = num_images;
  json["num_skipped"] = num_skipped;
  return json;
}

}  // namespace osprey::eval
