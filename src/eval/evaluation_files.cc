#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "eval/evaluation_json.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/data/image_codec.h"
#include "osprey/eval/evaluator.h"
#include "osprey/eval/event_writer.h"

namespace osprey::eval {
namespace {

namespace fs = std::filesystem;

// A whole file, with the folders above it; programs that evaluate one checkpoint at a time do not disturb each other.
void write_result(const fs::path& file, const std::string& bytes) {
  if (file.has_parent_path()) {
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    if (error) throw DataError(fmt::format("{}: cannot be made: {}", file.parent_path().string(), error.message()));
  }
  write_whole(file, bytes, AtomicFile::Temporary::kPerProcess);
}

// Ids that are whole numbers, as COCO's are, are written as numbers.
nlohmann::json id_json(const std::string& id) {
  const bool digits = !id.empty() && id.size() < 18 && id.find_first_not_of("0123456789") == std::string::npos;
  if (digits) return std::stoll(id);
  return id;
}

// An image id as part of a file name.
std::string file_name(std::string id) {
  for (char& c : id)
    if (c == '/' || c == '\\' || c == '\0') c = '_';
  return id;
}

}  // namespace

std::string metrics_json(const EvaluationResult& result, int64_t step) {
  return evaluation_json(result.metrics, result.per_class, result.at_iou_50 ? &*result.at_iou_50 : nullptr,
                         result.num_images, result.num_skipped, step);
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

void write_evaluation(const EvaluationResult& result, const std::string& eval_dir, int64_t step,
                      const EvaluationOptions& options, EventWriter* events) {
  const std::string detections = detections_json(result);
  write_result(fs::path(eval_dir) / fmt::format("metrics_{}.json", step), metrics_json(result, step));
  write_result(fs::path(eval_dir) / fmt::format("detections_{}.json", step), detections);
  if (!options.detections_file.empty()) write_result(options.detections_file, detections);
  if (!options.visualization_dir.empty())
    for (const EvaluationPicture& picture : result.pictures) {
      const std::string name = options.visualization_by_image_id ? file_name(picture.id) : picture.tag;
      write_result(fs::path(options.visualization_dir) / fmt::format("export-{}-{}.png", name, step),
                   data::encode_png(picture.image));
    }
  if (events == nullptr) return;
  for (const MetricValue& metric : result.metrics)
    if (!std::isnan(metric.value)) events->scalar(metric.name, metric.value, step);
  for (const EvaluationPicture& picture : result.pictures)
    events->encoded_image(picture.tag, data::encode_jpeg(picture.image), picture.image.size(0), picture.image.size(1),
                          step);
  events->flush();
}

}  // namespace osprey::eval
