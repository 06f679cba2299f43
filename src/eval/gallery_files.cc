#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "eval/gallery_page.h"
#include "eval/result_file.h"
#include "osprey/eval/gallery.h"

namespace osprey::eval {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson errors_json(const GalleryImage& image, const EvaluationResult& result) {
  const auto name = [&](int64_t category) { return result.per_class[category].category.name; };
  OrderedJson errors = OrderedJson::array();
  for (const JudgedBox& box : image.detections) {
    if (box.verdict != Verdict::kFalseAlarm && box.verdict != Verdict::kConfused) continue;
    OrderedJson error = {{"kind", box.other < 0 ? "false_alarm" : "confused"}, {"detected", name(box.category)}};
    if (box.other >= 0) error["object"] = name(box.other);
    error["score"] = box.score;
    error["bbox"] = box.box_xywh;
    errors.push_back(std::move(error));
  }
  for (const JudgedBox& box : image.objects)
    if (box.verdict == Verdict::kMissed)
      errors.push_back({{"kind", "missed"}, {"object", name(box.category)}, {"bbox", box.box_xywh}});
  return errors;
}

std::string gallery_json(const EvaluationResult& result, int64_t step) {
  const double threshold = result.at_iou_50->operating_point.score_threshold;
  OrderedJson whole = {{"step", step}, {"score_threshold", nullptr}};
  if (!std::isnan(threshold)) whole["score_threshold"] = threshold;
  const auto add_list = [&](const char* list, const std::vector<GalleryImage>& images) {
    whole[list] = OrderedJson::array();
    for (size_t i = 0; i < images.size(); ++i)
      whole[list].push_back({{"image_id", id_json(images[i].id)},
                             {"picture", picture_file(list, i)},
                             {"right", images[i].right},
                             {"confused", images[i].confused},
                             {"false_alarms", images[i].false_alarms},
                             {"missed", images[i].missed},
                             {"errors", errors_json(images[i], result)}});
  };
  add_list("worst", result.gallery.worst);
  add_list("best", result.gallery.best);
  return readable_json(whole);
}

}  // namespace

void write_gallery(const EvaluationResult& result, const std::string& eval_dir, int64_t step) {
  const std::filesystem::path folder = std::filesystem::path(eval_dir) / fmt::format("gallery_{}", step);
  const auto write_list = [&](const char* list, const std::vector<GalleryImage>& images) {
    for (size_t i = 0; i < images.size(); ++i) write_result(folder / picture_file(list, i), images[i].jpeg);
    std::error_code not_there;
    for (size_t i = images.size(); std::filesystem::remove(folder / picture_file(list, i), not_there);) ++i;
  };
  write_list("worst", result.gallery.worst);
  write_list("best", result.gallery.best);
  write_result(folder / "gallery.json", gallery_json(result, step));
  write_result(folder / "index.html", gallery_page(result, step));
}

}  // namespace osprey::eval
