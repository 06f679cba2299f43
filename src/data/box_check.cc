#include "box_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace osprey::data {
namespace {

// A box may reach beyond its image, but not by the whole size of it: such numbers are pixels.
constexpr float kMostCoordinate = 2, kLeastCoordinate = -1;

Box clip(const Box& box) {
  const auto cut = [](float v) { return std::clamp(v, 0.0f, 1.0f); };
  return {cut(box.ymin), cut(box.xmin), cut(box.ymax), cut(box.xmax)};
}

bool empty(const Box& box) { return !(box.height() > 0 && box.width() > 0); }

// What is wrong with a box; "" for a sound one.
const char* fault(const Box& box, float tolerance_y, float tolerance_x) {
  for (float v : {box.ymin, box.xmin, box.ymax, box.xmax})
    if (!std::isfinite(v)) return "is not finite";
  if (box.ymax < box.ymin || box.xmax < box.xmin) return "is inverted";
  if (empty(box)) return "is empty";
  if (box.ymin < -tolerance_y || box.xmin < -tolerance_x || box.ymax > 1 + tolerance_y || box.xmax > 1 + tolerance_x)
    return empty(clip(box)) ? "lies outside the image" : "leaves the image";
  return empty(clip(box)) ? "lies outside the image" : "";
}

}  // namespace

std::vector<int64_t> check_boxes(std::vector<Box>& boxes, const BoxCheck& check, ReadReport& report) {
  std::vector<int64_t> kept;
  kept.reserve(boxes.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    Box& box = boxes[i];
    const std::string_view wrong =
        fault(box, 1.0f / static_cast<float>(check.height), 1.0f / static_cast<float>(check.width));
    if (!wrong.empty()) {
      const std::string place = fmt::format("{}: box {}", check.where, i);
      const std::string details =
          fmt::format("{}: ymin {} xmin {} ymax {} xmax {}", wrong, box.ymin, box.xmin, box.ymax, box.xmax);
      for (float v : {box.ymin, box.xmin, box.ymax, box.xmax})
        if (std::isfinite(v) && (v > kMostCoordinate || v < kLeastCoordinate))
          throw BadRecord(
              fmt::format("{}: image/object/bbox: {} looks like pixels; coordinates are fractions of the image ({})",
                          place, v, details),
              BadRecord::Cause::kPixels);
      if (check.policy == DecoderOptions::InvalidBox::kFail) throw DataError(fmt::format("{}: {}", place, details));
      if (check.policy == DecoderOptions::InvalidBox::kDrop || wrong != "leaves the image") {
        report.add(ReadReport::Problem::kDroppedBox, {check.where, static_cast<int64_t>(i)}, details);
        continue;
      }
      report.add(ReadReport::Problem::kClippedBox, {check.where, static_cast<int64_t>(i)}, details);
    }
    box = clip(box);
    kept.push_back(static_cast<int64_t>(i));
  }
  return kept;
}

}  // namespace osprey::data
