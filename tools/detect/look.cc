#include "detect/look.h"

#include "osprey/eval/draw.h"

namespace osprey::tools {

Find find_with(const Detector& detector, const TileOptions& tiles, double min_score) {
  return [&detector, tiles, min_score](const std::vector<at::Tensor>& pictures) {
    if (tiles.side_px == 0) return detector.detect(pictures, min_score);
    std::vector<std::vector<Detection>> result;
    for (const at::Tensor& picture : pictures) result.push_back(detect_in_tiles(detector, picture, tiles, min_score));
    return result;
  };
}

nlohmann::ordered_json detections_json(const std::vector<Detection>& found) {
  nlohmann::ordered_json result = nlohmann::json::array();
  for (const Detection& one : found)
    result.push_back({{"class_id", one.class_id},
                      {"class", one.class_name},
                      {"score", one.score},
                      {"box", {one.box.ymin, one.box.xmin, one.box.ymax, one.box.xmax}}});
  return result;
}

at::Tensor drawn(const at::Tensor& picture, const std::vector<Detection>& found) {
  std::vector<eval::DrawnBox> boxes;
  for (const Detection& one : found) boxes.push_back({one.box, one.class_id - 1, one.class_name, one.score});
  return eval::draw_boxes(picture, boxes, {.max_boxes = static_cast<int>(boxes.size()), .min_score = 0});
}

}  // namespace osprey::tools
