#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "eval/gallery_page.h"
#include "eval/html.h"

namespace osprey::eval {
namespace {

std::string html_value(double value) { return std::isnan(value) ? "n/a" : fmt::format("{:.3f}", value); }

std::string cells(const std::vector<std::string>& values, const char* element) {
  std::string html = "<tr>";
  for (const std::string& value : values) html += fmt::format("<{0}>{1}</{0}>", element, value);
  return html + "</tr>\n";
}

// The classes with most errors, at most `most`, in their order; the last row and column are not asked.
std::vector<size_t> worst_classes(const std::vector<std::vector<int64_t>>& confusion, size_t most) {
  const size_t num_classes = confusion.size() - 1;
  std::vector<int64_t> errors(num_classes, 0);
  for (size_t k = 0; k < num_classes; ++k)
    for (size_t other = 0; other <= num_classes; ++other)
      if (other != k) errors[k] += confusion[k][other] + confusion[other][k];
  std::vector<size_t> order(num_classes);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t k) { return errors[k]; });
  order.resize(std::min(most, num_classes));
  std::ranges::sort(order);
  return order;
}

}  // namespace

std::string html_class_table(const EvaluationResult& result) {
  const OperatingPoint& point = result.at_iou_50->operating_point;
  std::string html = "<div class=\"wide\"><table>\n";
  html += cells(
      {"class", "AP", "AP50", "AR", "precision", "recall", "F1", "right", "false", "missed", "objects", "detections"},
      "th");
  const auto row = [&](const std::string& name, std::vector<std::string> values, const DetectionCounts& counts,
                       int64_t num_objects, int64_t num_detections) {
    values.insert(values.begin(), name);
    for (double value : {counts.precision(), counts.recall(), counts.f1()}) values.push_back(html_value(value));
    for (int64_t count :
         {counts.true_positives, counts.false_positives, counts.false_negatives, num_objects, num_detections})
      values.push_back(std::to_string(count));
    html += cells(values, "td");
  };
  int64_t num_objects = 0, num_detections = 0;
  for (size_t k = 0; k < result.per_class.size(); ++k) {
    const ClassMetrics& own = result.per_class[k];
    row(html_text(own.category.name), {html_value(own.ap), html_value(own.ap50), html_value(own.ar)},
        point.per_category[k], own.num_ground_truth, own.num_detections);
    num_objects += own.num_ground_truth;
    num_detections += own.num_detections;
  }
  row("<b>all</b>", {"", "", ""}, point.all, num_objects, num_detections);
  html += "</table></div>\n";
  const std::string from = std::isnan(point.score_threshold)
                               ? "Nothing was detected that counts."
                               : fmt::format(
                                     "Precision, recall, F1, right, false and missed: at IoU 0.5, scores from "
                                     "{:.4f}, where F1 of all classes together is largest.",
                                     std::floor(point.score_threshold * 1e4) / 1e4);
  return html +
         fmt::format("<p class=\"note\">{} n/a: the data has no such object, or nothing was detected.</p>\n", from);
}

std::string html_confusion(const EvaluationResult& result) {
  constexpr size_t kMostClasses = 40;
  const auto& confusion = result.at_iou_50->operating_point.confusion;
  const size_t background = confusion.size() - 1;
  std::vector<size_t> shown = worst_classes(confusion, kMostClasses);
  const size_t left_out = background - shown.size();
  shown.push_back(background);
  const auto name = [&](size_t k, const char* last) {
    return k == background ? fmt::format("<i>{}</i>", last) : html_text(result.per_class[k].category.name);
  };
  std::string html =
      "<p class=\"note\">Rows: what an object is; columns: what it was detected as. <i>background</i>: there is no "
      "such "
      "object; <i>missed</i>: nothing was detected.</p>\n<div class=\"wide\"><table>\n";
  std::vector<std::string> titles = {""};
  for (size_t k : shown) titles.push_back(name(k, "missed"));
  html += cells(titles, "th");
  for (size_t row : shown) {
    const int64_t whole =
        std::max<int64_t>(1, std::accumulate(confusion[row].begin(), confusion[row].end(), int64_t{0}));
    html += "<tr><td>" + name(row, "background") + "</td>";
    for (size_t column : shown) {
      const int64_t count = confusion[row][column];
      html += fmt::format("<td style=\"background: rgba({}, {:.2f})\">{}</td>",
                          row == column ? "80, 220, 100" : "255, 110, 100",
                          static_cast<double>(count) / static_cast<double>(whole),
                          count > 0 || (row == column && row != background) ? std::to_string(count) : "");
    }
    html += "</tr>\n";
  }
  html += "</table></div>\n";
  if (left_out > 0)
    html += fmt::format(
        "<p class=\"note\">The {} classes with most errors; {} more are in the evaluation's metrics file.</p>\n",
        shown.size() - 1, left_out);
  return html;
}

}  // namespace osprey::eval
