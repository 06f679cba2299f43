#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "eval/evaluation_json.h"
#include "eval/result_file.h"
#include "osprey/base/json_text.h"
#include "osprey/data/image_codec.h"
#include "osprey/eval/evaluator.h"
#include "osprey/eval/event_writer.h"

namespace osprey::eval {
namespace {

namespace fs = std::filesystem;

// An image id as part of a file name.
std::string file_name(std::string id) {
  for (char& c : id)
    if (c == '/' || c == '\\' || c == '\0') c = '_';
  return id;
}

void write_curves(const EvaluationResult& result, int64_t step, EventWriter& events) {
  const std::string tag = "DetectionBoxes_PrecisionRecall@.50IOU";
  std::vector<DetectionCounts> all(AtIou50::kScores);
  for (size_t k = 0; k < result.per_class.size(); ++k) {
    const std::vector<DetectionCounts>& counts = result.at_iou_50->at_scores[k];
    for (size_t i = 0; i < all.size(); ++i) all[i] += counts[i];
    if (!result.at_iou_50->precision_recall[k].precision.empty())
      events.precision_recall(fmt::format("{}/{}", tag, result.per_class[k].category.name), counts, step);
  }
  events.precision_recall(tag, all, step);
}

void write_events(const EvaluationResult& result, int64_t step, EventWriter& events) {
  for (const MetricValue& metric : result.metrics)
    if (!std::isnan(metric.value)) events.scalar(metric.name, metric.value, step);
  for (const EvaluationPicture& picture : result.pictures)
    events.encoded_image(picture.tag, data::encode_jpeg(picture.image), picture.image.size(0), picture.image.size(1),
                         step);
  if (result.at_iou_50) write_curves(result, step, events);
  events.flush();
}

}  // namespace

std::string metrics_json(const EvaluationResult& result, int64_t step) {
  return evaluation_json(result.metrics, result.per_class, result.at_iou_50 ? &*result.at_iou_50 : nullptr,
                         result.num_images, result.num_skipped, step, result.tiles);
}

std::string detections_json(const EvaluationResult& result) {
  std::string text = "[";
  for (const ImageResult& image : result.detections) {
    const nlohmann::json id = id_json(image.id);
    for (size_t d = 0; d < image.found.boxes_px.size(); ++d) {
      const BoxPx& box = image.found.boxes_px[d];
      const nlohmann::ordered_json line = {{"image_id", id},
                                           {"category_id", image.found.classes[d]},
                                           {"bbox", {box.xmin, box.ymin, box.xmax - box.xmin, box.ymax - box.ymin}},
                                           {"score", image.found.scores[d]}};
      text += text.size() > 1 ? ",\n" : "\n";
      text += json_text(line);
    }
  }
  return text + "\n]\n";
}

fs::path metrics_file(const fs::path& eval_dir, int64_t step) {
  return eval_dir / fmt::format("metrics_{}.json", step);
}

void write_evaluation(const EvaluationResult& result, const std::string& eval_dir, int64_t step,
                      const EvaluationOptions& options, EventWriter* events) {
  const std::string detections = detections_json(result);
  write_result(fs::path(eval_dir) / fmt::format("detections_{}.json", step), detections);
  if (!options.detections_file.empty()) write_result(options.detections_file, detections);
  if (!options.visualization_dir.empty())
    for (const EvaluationPicture& picture : result.pictures) {
      const std::string name = options.visualization_by_image_id ? file_name(picture.id) : picture.tag;
      write_result(fs::path(options.visualization_dir) / fmt::format("export-{}-{}.png", name, step),
                   data::encode_png(picture.image));
    }
  if (options.gallery_images > 0) write_gallery(result, eval_dir, step);
  if (events != nullptr) write_events(result, step, *events);
  write_result(metrics_file(eval_dir, step), metrics_json(result, step));
}

}  // namespace osprey::eval
