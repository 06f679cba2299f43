#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "eval/gallery_page.h"
#include "eval/html.h"
#include "osprey/eval/draw.h"

namespace osprey::eval {
namespace {

// A curve in the square of kSide pixels whose corner is at kLeft, kTop.
constexpr double kSide = 320, kLeft = 46, kTop = 10;
std::string curve(const std::vector<double>& precision, const std::string& colour, int thickness,
                  const std::string& name) {
  std::string points;
  for (size_t r = 0; r < precision.size(); ++r)
    points += fmt::format("{:.1f},{:.1f} ", kLeft + kSide * static_cast<double>(r) / (precision.size() - 1.0),
                          kTop + kSide * (1 - precision[r]));
  return fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"{}\"><title>{}</title></polyline>\n", colour,
      thickness, points, name);
}

std::string rgb_of_class(size_t k) {
  const auto [red, green, blue] = class_color(static_cast<int64_t>(k));
  return fmt::format("rgb({}, {}, {})", red, green, blue);
}

}  // namespace

std::string html_curves(const EvaluationResult& result) {
  const AtIou50& at = *result.at_iou_50;
  std::string html = fmt::format("<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-size=\"12\">\n",
                                 kLeft + kSide + 20, kTop + kSide + 40);
  for (const double tick : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double x = kLeft + kSide * tick, y = kTop + kSide * (1 - tick);
    html += fmt::format("<path stroke=\"#ddd\" d=\"M{0} {1}V{2}M{3} {4}H{5}\"/>", x, kTop, kTop + kSide, kLeft, y,
                        kLeft + kSide);
    html += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x, kTop + kSide + 16, tick);
    html += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", kLeft - 6, y + 4, tick);
  }
  html +=
      fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">recall</text>", kLeft + kSide / 2, kTop + kSide + 34);
  html += fmt::format("<text transform=\"translate(12 {}) rotate(-90)\" text-anchor=\"middle\">precision</text>\n",
                      kTop + kSide / 2);
  std::string legend;
  const auto add = [&](const std::vector<double>& precision, const std::string& name, const std::string& colour,
                       int thickness) {
    html += curve(precision, colour, thickness, name);
    legend += fmt::format("<span class=\"key\" style=\"border-bottom: 3px solid {}\">{}</span>", colour, name);
  };
  size_t num_classes = 0;
  for (size_t k = 0; k < at.precision_recall.size(); ++k) {
    if (at.precision_recall[k].precision.empty()) continue;
    add(at.precision_recall[k].precision, html_text(result.per_class[k].category.name), rgb_of_class(k), 2);
    ++num_classes;
  }
  if (!at.mean_precision.empty()) add(at.mean_precision, "mean", "#000", 3);
  constexpr size_t kNamed = 20;  // more classes have no legend
  return html + "</svg>\n" + (num_classes <= kNamed ? "<p>" + legend + "</p>\n" : "");
}

}  // namespace osprey::eval
