#include "data/augmentations/crop_sampler.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/augmentations/checks.h"

namespace osprey::data {
namespace {
int64_t width_of(int64_t height, float aspect_ratio) { return std::lrint(static_cast<float>(height) * aspect_ratio); }

// A window of this aspect ratio inside the image, its height uniform between what the two areas allow.
std::optional<PixelWindow> window_of(int64_t rows, int64_t columns, float aspect_ratio, const CropOptions& options,
                                     RandomDraws& draws) {
  const auto pixels = [&](float share) { return share * static_cast<float>(columns) * static_cast<float>(rows); };
  const float min_area = pixels(options.min_area), max_area = pixels(options.max_area);
  int64_t most = std::lrint(std::sqrt(max_area / aspect_ratio));
  if (width_of(most, aspect_ratio) > columns) {
    most = static_cast<int64_t>((static_cast<double>(columns) + 0.5 - 1e-7) / aspect_ratio);
    if (width_of(most, aspect_ratio) > columns) --most;
  }
  most = std::min(most, rows);
  int64_t height = std::min<int64_t>(std::lrint(std::sqrt(min_area / aspect_ratio)), most);
  if (height < most) height = draws.integer(height, most + 1);

  // Rounding may have left the allowed areas by one row.
  const auto area = [&] { return static_cast<float>(height * width_of(height, aspect_ratio)); };
  if (area() < min_area) ++height;
  if (area() > max_area) --height;
  const int64_t width = width_of(height, aspect_ratio);
  if (area() < min_area || area() > max_area || height < 1 || width < 1 || height > rows || width > columns)
    return std::nullopt;

  const int64_t top = draws.integer(0, rows - height), left = draws.integer(0, columns - width);
  return PixelWindow{top, left, top + height, left + width};
}

int64_t area(const PixelWindow& window) {
  return std::max<int64_t>(0, window.ymax - window.ymin) * std::max<int64_t>(0, window.xmax - window.xmin);
}
PixelWindow intersection(const PixelWindow& a, const PixelWindow& b) {
  return {std::max(a.ymin, b.ymin), std::max(a.xmin, b.xmin), std::min(a.ymax, b.ymax), std::min(a.xmax, b.xmax)};
}

std::vector<PixelWindow> boxes_in_pixels(const Example& example, int64_t rows, int64_t columns) {
  const auto pixel = [](float value, int64_t side) {
    return static_cast<int64_t>(std::clamp(value, 0.0f, 1.0f) * static_cast<float>(side));
  };
  std::vector<PixelWindow> boxes;
  for (const Box& box : example.boxes)
    boxes.push_back({pixel(box.ymin, rows), pixel(box.xmin, columns), pixel(box.ymax, rows), pixel(box.xmax, columns)});
  if (boxes.empty()) boxes.push_back({0, 0, rows, columns});
  return boxes;
}
}  // namespace

void check(const CropOptions& options, const config::Node& node) {
  if (!(options.min_object_covered >= 0)) node.fail("min_object_covered", "must be >= 0");
  if (options.min_object_covered > 1)
    SPDLOG_WARN("{}: {} of a box cannot be covered, so pictures stay whole", node.path_of("min_object_covered"),
                options.min_object_covered);
  if (!(options.min_aspect_ratio > 0)) node.fail("min_aspect_ratio", "must be > 0");
  check_range(node, "min_aspect_ratio", options.min_aspect_ratio, "max_aspect_ratio", options.max_aspect_ratio, 0);
  if (!(options.min_area > 0 && options.min_area <= 1)) node.fail("min_area", "must be in (0, 1]");
  check_range(node, "min_area", options.min_area, "max_area", options.max_area, 0);
  if (!(options.max_area <= 1)) node.fail("max_area", "must be in (0, 1]");
  check_probability(node, "overlap_thresh", options.overlap_thresh);
  check_probability(node, "random_coef", options.random_coef);
}

PixelWindow sample_window(const Example& example, const CropOptions& options, RandomDraws& draws) {
  constexpr int kAttempts = 100;
  constexpr int64_t kLeastArea = 1;  // boxes below one pixel cannot be covered
  const int64_t rows = example.image.size(0), columns = example.image.size(1);
  const std::vector<PixelWindow> boxes = boxes_in_pixels(example, rows, columns);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const float aspect_ratio = draws.uniform(options.min_aspect_ratio, options.max_aspect_ratio);
    const std::optional<PixelWindow> window = window_of(rows, columns, aspect_ratio, options, draws);
    if (!window) continue;
    const bool covers = std::any_of(boxes.begin(), boxes.end(), [&](const PixelWindow& box) {
      return area(box) >= kLeastArea &&
             static_cast<float>(area(intersection(*window, box))) / static_cast<float>(area(box)) >=
                 options.min_object_covered;
    });
    if (covers) return *window;
  }
  return {0, 0, rows, columns};
}

void random_crop(Example& example, const CropOptions& options, RandomDraws& draws) {
  if (options.random_coef > 0 && draws.uniform(0, 1) <= options.random_coef) return;
  crop(example, sample_window(example, options, draws), options.overlap_thresh, options.clip_boxes);
}

void random_crop_to_aspect_ratio(Example& example, float aspect_ratio, float overlap_thresh, bool clip,
                                 RandomDraws& draws) {
  const int64_t rows = example.image.size(0), columns = example.image.size(1);
  const float own_ratio = static_cast<float>(columns) / static_cast<float>(rows);
  int64_t height = rows, width = columns;
  if (own_ratio < aspect_ratio)
    height = std::clamp<int64_t>(std::lrint(static_cast<float>(columns) / aspect_ratio), 1, rows);
  else if (own_ratio > aspect_ratio)
    width = std::clamp<int64_t>(std::lrint(static_cast<float>(rows) * aspect_ratio), 1, columns);
  const int64_t top = draws.integer(0, rows - height + 1), left = draws.integer(0, columns - width + 1);
  crop(example, {top, left, top + height, left + width}, overlap_thresh, clip);
}

}  // namespace osprey::data
