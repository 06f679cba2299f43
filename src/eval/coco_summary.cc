#include <fmt/format.h>

#include <cmath>

#include "osprey/eval/coco_metrics.h"

namespace osprey::eval {

const std::array<std::string, 12>& coco_metric_names() {
  static const std::array<std::string, 12> names = {"DetectionBoxes_Precision/mAP",
                                                    "DetectionBoxes_Precision/mAP@.50IOU",
                                                    "DetectionBoxes_Precision/mAP@.75IOU",
                                                    "DetectionBoxes_Precision/mAP (small)",
                                                    "DetectionBoxes_Precision/mAP (medium)",
                                                    "DetectionBoxes_Precision/mAP (large)",
                                                    "DetectionBoxes_Recall/AR@1",
                                                    "DetectionBoxes_Recall/AR@10",
                                                    "DetectionBoxes_Recall/AR@100",
                                                    "DetectionBoxes_Recall/AR@100 (small)",
                                                    "DetectionBoxes_Recall/AR@100 (medium)",
                                                    "DetectionBoxes_Recall/AR@100 (large)"};
  return names;
}

std::string coco_summary(const CocoStats& stats) {
  struct Line {
    const char *title, *type, *iou, *area;
    int max_detections;
  };
  constexpr const char *kPrecision = "Average Precision", *kRecall = "Average Recall", *kAll = "0.50:0.95";
  const std::array<Line, 12> lines = {{{kPrecision, "(AP)", kAll, "all", 100},
                                       {kPrecision, "(AP)", "0.50", "all", 100},
                                       {kPrecision, "(AP)", "0.75", "all", 100},
                                       {kPrecision, "(AP)", kAll, "small", 100},
                                       {kPrecision, "(AP)", kAll, "medium", 100},
                                       {kPrecision, "(AP)", kAll, "large", 100},
                                       {kRecall, "(AR)", kAll, "all", 1},
                                       {kRecall, "(AR)", kAll, "all", 10},
                                       {kRecall, "(AR)", kAll, "all", 100},
                                       {kRecall, "(AR)", kAll, "small", 100},
                                       {kRecall, "(AR)", kAll, "medium", 100},
                                       {kRecall, "(AR)", kAll, "large", 100}}};
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    text += fmt::format(" {:<18} {} @[ IoU={:<9} | area={:>6} | maxDets={:>3} ] = {:.3f}\n", line.title, line.type,
                        line.iou, line.area, line.max_detections, std::isnan(stats[i]) ? -1.0 : stats[i]);
  }
  return text;
}

std::string per_class_table(const std::vector<ClassMetrics>& rows, const AtIou50* at) {
  size_t width = 5;
  for (const ClassMetrics& row : rows) width = std::max(width, row.category.name.size());
  auto value = [](double v) { return std::isnan(v) ? std::string("n/a") : fmt::format("{:.3f}", v); };
  // Metrics of classifiers know no precision of boxes.
  const bool has_ap = std::ranges::none_of(rows, [](const auto& row) { return row.num_ground_truth > 0; }) ||
                      std::ranges::any_of(rows, [](const auto& row) { return !std::isnan(row.ap); });
  auto triple = [](const auto& p, const auto& r, const auto& f1) {
    return fmt::format("  {:>6}  {:>6}  {:>6}", p, r, f1);
  };
  const auto shares = [&](const std::string& ap, const std::string& ap50, const std::string& ar) {
    return has_ap ? triple(ap, ap50, ar) : fmt::format("  {:>6}", ar);
  };
  std::string text =
      fmt::format(" {:<{}}{}  {:>8}  {:>10}", "class", width, shares("AP", "AP50", "AR"), "objects", "detections");
  if (at != nullptr) text += triple("P", "R", "F1");
  text += '\n';
  bool missing = false, unseen = false;
  for (size_t k = 0; k < rows.size(); ++k) {
    const ClassMetrics& row = rows[k];
    text +=
        fmt::format(" {:<{}}{}  {:>8}  {:>10}", row.category.name, width,
                    shares(value(row.ap), value(row.ap50), value(row.ar)), row.num_ground_truth, row.num_detections);
    if (at != nullptr) {
      const DetectionCounts& counts = at->operating_point.per_category[k];
      unseen = unseen || (row.num_ground_truth > 0 && std::isnan(counts.precision()));
      text += triple(value(counts.precision()), value(counts.recall()), value(counts.f1()));
    }
    text += '\n';
    missing = missing || row.num_ground_truth == 0;
  }
  if (missing) text += " n/a: the data has no object of this class; it is left out of the mean\n";
  if (unseen) text += " P n/a: nothing was detected of this class\n";
  if (at != nullptr && !std::isnan(at->operating_point.score_threshold)) {
    const DetectionCounts& all = at->operating_point.all;
    const double shown = std::floor(at->operating_point.score_threshold * 1e4) / 1e4;  // copied, it leaves nothing out
    text +=
        fmt::format(" P, R, F1: at IoU 0.5, scores from {:.4f}, the best for F1 of all classes together: {}, {}, {}\n",
                    shown, value(all.precision()), value(all.recall()), value(all.f1()));
  }
  return text;
}

std::vector<ClassMetrics> per_class_rows(const CocoResult& result, const std::vector<Category>& categories) {
  std::vector<ClassMetrics> rows;
  for (size_t k = 0; k < categories.size(); ++k) {
    const CocoStats& stats = result.per_category[k];
    rows.push_back({categories[k], stats[0], stats[1], stats[8], result.num_ground_truth[k], result.num_detections[k]});
  }
  return rows;
}

}  // namespace osprey::eval
