#include "osprey/eval/report.h"

#include <fmt/format.h>

#include <cmath>

#include "eval/evaluation_json.h"
#include "osprey/base/clock.h"

namespace osprey::eval {

CocoReport evaluate_coco_files(const std::string& ground_truth, const std::string& detections, int num_threads) {
  CocoReport report;
  double start = now();
  const CocoFiles files = read_coco_files(ground_truth, detections);
  report.read_seconds = now() - start;
  start = now();
  const CocoResult result = evaluate_coco(files.images, static_cast<int64_t>(files.categories.size()), num_threads);
  const std::vector<ClassMetrics> rows = per_class_rows(result, files.categories);
  std::vector<MetricValue> metrics;
  for (size_t s = 0; s < result.stats.size(); ++s) metrics.push_back({coco_metric_names()[s], result.stats[s]});
  report.evaluate_seconds = now() - start;
  report.summary = coco_summary(result.stats) + "\n" + per_class_table(rows, &result.at_iou_50);
  report.json =
      evaluation_json(metrics, rows, &result.at_iou_50, static_cast<int64_t>(files.images.size()), 0, std::nullopt);
  report.warnings = files.warnings;
  return report;
}

std::string text_report(const EvaluationResult& result) {
  std::string text;
  CocoStats stats;
  stats.fill(kNotAvailable);
  size_t coco = 0;
  for (const MetricValue& metric : result.metrics)
    for (size_t s = 0; s < stats.size(); ++s)
      if (metric.name == coco_metric_names()[s]) {
        stats[s] = metric.value;
        ++coco;
      }
  if (coco == stats.size()) text += coco_summary(stats);
  for (const MetricValue& metric : result.metrics) {
    const auto& names = coco_metric_names();
    if (coco == stats.size() && std::find(names.begin(), names.end(), metric.name) != names.end()) continue;
    text +=
        fmt::format(" {} = {}\n", metric.name, std::isnan(metric.value) ? "n/a" : fmt::format("{:.6g}", metric.value));
  }
  if (!result.per_class.empty())
    text += "\n" + per_class_table(result.per_class, result.at_iou_50 ? &*result.at_iou_50 : nullptr);
  for (const std::string& line : result.explanations) text += "\n " + line;
  if (!result.explanations.empty()) text += '\n';
  return text;
}

}  // namespace osprey::eval
