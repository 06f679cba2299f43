#include "eval/evaluation_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/result_file.h"

namespace osprey::eval {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : nullptr; }

// A list that is empty does not exist.
Json list(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  Json json = Json::array();
  for (double value : values) json.push_back(number(value));
  return json;
}

Json named(const Category& category) { return {{"id", category.id}, {"name", category.name}}; }

void add(Json& json, const DetectionCounts& counts) {
  json["true_positives"] = counts.true_positives;
  json["false_positives"] = counts.false_positives;
  json["false_negatives"] = counts.false_negatives;
  json["precision"] = number(counts.precision());
  json["recall"] = number(counts.recall());
  json["F1"] = number(counts.f1());
}

Json at_iou_50_json(const AtIou50& at, const std::vector<ClassMetrics>& rows) {
  const OperatingPoint& point = at.operating_point;
  Json curves = {{"recall", coco_recalls()}, {"mean_precision", list(at.mean_precision)}, {"per_class", Json::array()}};
  Json operating = {{"score_threshold", number(point.score_threshold)}, {"all", Json::object()}};
  add(operating["all"], point.all);
  operating["per_class"] = Json::array();
  Json names = Json::array();
  for (size_t k = 0; k < rows.size(); ++k) {
    Json curve = named(rows[k].category), counts = curve;
    curve["precision"] = list(at.precision_recall[k].precision);
    curve["score"] = list(at.precision_recall[k].score);
    curves["per_class"].push_back(std::move(curve));
    add(counts, point.per_category[k]);
    operating["per_class"].push_back(std::move(counts));
    names.push_back(rows[k].category.name);
  }
  Json confusion = {{"rows", names}, {"columns", names}, {"counts", point.confusion}};
  confusion["rows"].push_back("background");
  confusion["columns"].push_back("missed");
  operating["confusion_matrix"] = std::move(confusion);
  return {{"precision_recall", std::move(curves)}, {"operating_point", std::move(operating)}};
}

}  // namespace

std::string evaluation_json(const std::vector<MetricValue>& metrics, const std::vector<ClassMetrics>& per_class,
                            const AtIou50* at_iou_50, int64_t num_images, int64_t num_skipped,
                            std::optional<int64_t> step, const std::optional<boxes::TileOptions>& tiles) {
  Json json;
  if (step) json["step"] = *step;
  if (tiles) json["tiles"] = {{"tile_size", tiles->side_px}, {"tile_overlap", tiles->overlap}};
  json["metrics"] = Json::object();
  for (const MetricValue& metric : metrics) json["metrics"][metric.name] = number(metric.value);
  json["per_class"] = Json::array();
  for (const ClassMetrics& row : per_class) {
    Json entry = named(row.category);
    entry["AP"] = number(row.ap);
    entry["AP50"] = number(row.ap50);
    entry["AR"] = number(row.ar);
    entry["num_ground_truth"] = row.num_ground_truth;
    entry["num_detections"] = row.num_detections;
    json["per_class"].push_back(std::move(entry));
  }
  json["num_images"] = num_images;
  json["num_skipped"] = num_skipped;
  if (at_iou_50 != nullptr) json["at_iou_50"] = at_iou_50_json(*at_iou_50, per_class);
  return readable_json(json);
}

}  // namespace osprey::eval
