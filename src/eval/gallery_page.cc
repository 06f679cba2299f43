#include "eval/gallery_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "eval/gallery_picture.h"
#include "eval/html.h"

namespace osprey::eval {
namespace {

constexpr const char* kStyle = R"(
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; background: #fff; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; } th, td { padding: .2em .7em; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; } .wide { overflow-x: auto; }
figure { margin: 0 0 2em; } figure img { max-width: 100%; height: auto; display: block; } figcaption { margin: .3em 0; }
.key { display: inline-block; padding: 0 .5em; margin-right: .6em; color: #000; } .note { color: #666; }
)";

std::string plural(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string key(Verdict verdict, const char* text) {
  const auto [red, green, blue] = verdict_color(verdict);
  return fmt::format("<span class=\"key\" style=\"background: rgb({}, {}, {})\">{}</span>", red, green, blue, text);
}

// "11 false RBC (up to 29%); 1 missed WBC": the commonest first.
std::string errors_of(const GalleryImage& image, const std::vector<Category>& categories) {
  struct Kind {
    std::string text;
    int64_t count = 0;
    double best_score = -1;
  };
  std::vector<Kind> kinds;
  const auto count = [&](const JudgedBox& box) {
    const std::string text = verdict_text(box, categories);
    auto kind = std::ranges::find(kinds, text, &Kind::text);
    if (kind == kinds.end()) kind = kinds.insert(kind, {.text = text});
    ++kind->count;
    kind->best_score = std::max(kind->best_score, box.score);
  };
  for (const JudgedBox& box : image.detections)
    if (box.verdict == Verdict::kConfused || box.verdict == Verdict::kFalseAlarm) count(box);
  for (const JudgedBox& box : image.objects)
    if (box.verdict == Verdict::kMissed) count(box);
  std::ranges::stable_sort(kinds, std::ranges::greater(), &Kind::count);
  std::string html;
  for (const Kind& kind : kinds) {
    html += fmt::format("{}{} {}", html.empty() ? "" : "; ", kind.count, html_text(kind.text));
    if (kind.best_score >= 0)
      html += fmt::format(" ({}{}%)", kind.count > 1 ? "up to " : "", std::lround(100 * kind.best_score));
  }
  return html;
}

std::string figures(const std::vector<GalleryImage>& images, const char* list,
                    const std::vector<Category>& categories) {
  std::string html;
  for (size_t i = 0; i < images.size(); ++i) {
    const std::string file = picture_file(list, i), id = html_text(images[i].id);
    html += fmt::format(
        "<figure id=\"{0}_{1}\"><figcaption><b>{1}. {2}</b> &middot; {3}<br><span "
        "class=\"note\">{4}</span></figcaption>"
        "<a href=\"{5}\"><img src=\"{5}\" loading=\"lazy\" alt=\"{2}\"></a></figure>\n",
        list, i + 1, id, error_summary(images[i]), errors_of(images[i], categories), file);
  }
  return html;
}

std::string head(const EvaluationResult& result, int64_t step) {
  const MetricValue& main = result.metrics.front();
  std::string text = fmt::format(
      "<h1>Evaluation at step {}</h1>\n<p>{}, {}, {}{}. {}: <b>{}</b></p>\n", step,
      plural(result.num_images, "image", "images"), plural(result.num_ground_truth, "object", "objects"),
      plural(result.num_detections, "detection", "detections"),
      result.num_skipped > 0 ? fmt::format(", {} skipped", plural(result.num_skipped, "record", "records")) : "",
      html_text(main.name), std::isnan(main.value) ? "n/a" : fmt::format("{:.4f}", main.value));
  for (const std::string& line : result.explanations)
    text += fmt::format("<p class=\"note\">{}</p>\n", html_text(line));
  return text;
}

}  // namespace

std::string picture_file(std::string_view list, size_t index) { return fmt::format("{}_{:02}.jpg", list, index + 1); }

std::string error_summary(const GalleryImage& image) {
  std::string kinds;
  const auto kind = [&](int64_t count, const char* one, const char* many) {
    if (count > 0) kinds += (kinds.empty() ? ": " : ", ") + plural(count, one, many);
  };
  kind(image.missed, "missed", "missed");
  kind(image.false_alarms, "false alarm", "false alarms");
  kind(image.confused, "confused", "confused");
  return fmt::format("{}{}; {} right", plural(image.num_errors(), "error", "errors"), kinds, image.right);
}

std::string gallery_page(const EvaluationResult& result, int64_t step) {
  std::vector<Category> categories;
  for (const ClassMetrics& row : result.per_class) categories.push_back(row.category);
  const Gallery& gallery = result.gallery;
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>Evaluation at step {}</title><style>{}</style></head><body>\n",
      step, kStyle);
  html += head(result, step);
  html += "<h2>Classes</h2>\n" + html_class_table(result);
  html += "<h2>Precision and recall at IoU 0.5</h2>\n" + html_curves(result);
  html += "<h2>Confusion matrix</h2>\n" + html_confusion(result);
  html +=
      "<h2>Worst images</h2>\n<p>" + key(Verdict::kRight, "right") + key(Verdict::kFalseAlarm, "false alarm") +
      key(Verdict::kMissed, "missed") + key(Verdict::kConfused, "another class") +
      key(Verdict::kLeftOut, "counts neither way") +
      "</p>\n<p class=\"note\">Left what was detected from the threshold up, right what is annotated; matched as the "
      "confusion matrix. Most errors first, then those that the detector was surest of.</p>\n";
  html += gallery.worst.empty() ? "<p>No image has an error.</p>\n" : figures(gallery.worst, "worst", categories);
  html += "<h2>Best images</h2>\n<p class=\"note\">Fewest errors first, then most objects found.</p>\n";
  html +=
      gallery.best.empty() ? "<p>No other image has anything right.</p>\n" : figures(gallery.best, "best", categories);
  return html + "</body></html>\n";
}

}  // namespace osprey::eval
