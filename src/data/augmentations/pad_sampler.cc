#include "data/augmentations/pad_sampler.h"

#include <algorithm>
#include <cmath>

#include "osprey/data/example_ops.h"

namespace osprey::data {

void random_pad(Example& example, ImageSize least, ImageSize most, std::vector<float> color, RandomDraws& draws) {
  const int64_t rows = example.image.size(0), columns = example.image.size(1);
  const auto side = [&](int64_t own, int64_t low, int64_t high) {
    low = std::max(low, own);
    high = std::max(high, own);
    return high > low ? draws.integer(low, high) : high;
  };
  if (color.empty()) color = mean_color(example.image);
  const int64_t height = side(rows, least.height, most.height), width = side(columns, least.width, most.width);
  const int64_t top = draws.integer(0, height - rows), left = draws.integer(0, width - columns);
  pad(example, height, width, top, left, color);
}

void random_pad_to_aspect_ratio(Example& example, float aspect_ratio, const std::vector<float>& min_ratio,
                                const std::vector<float>& max_ratio, RandomDraws& draws) {
  const float rows = static_cast<float>(example.image.size(0)), columns = static_cast<float>(example.image.size(1));
  const bool wide = columns / rows >= aspect_ratio;
  const float height = wide ? columns / aspect_ratio : rows, width = wide ? columns : rows * aspect_ratio;
  const float max_scale =
      std::min(std::max(max_ratio[0] * rows, height) / height, std::max(max_ratio[1] * columns, width) / width);
  const float min_scale = std::min(max_scale, std::max(std::max(min_ratio[0] * rows, height) / height,
                                                       std::max(min_ratio[1] * columns, width) / width));
  const float scale = draws.uniform(min_scale, max_scale);
  const int64_t canvas_height = std::max<int64_t>(std::lrint(scale * height), example.image.size(0));
  const int64_t canvas_width = std::max<int64_t>(std::lrint(scale * width), example.image.size(1));
  pad(example, canvas_height, canvas_width, 0, 0, std::vector<float>(example.image.size(2), 0.0f));
}

}  // namespace osprey::data
