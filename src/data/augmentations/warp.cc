#include "data/augmentations/warp.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace osprey::data {
namespace {
struct PixelPoint {
  float y, x;
};

float pixels(float fraction, int64_t side) { return std::trunc(static_cast<float>(side) * fraction); }
float radians(float degrees) { return degrees * static_cast<float>(std::numbers::pi / 180); }

void widen_at_border(float& low, float& high) {
  constexpr float kLeast = 0.05f;
  if (high - low != 0) return;
  high = std::max(high, kLeast);
  low = std::min(low, 1 - kLeast);
}

Box within_image(const Box& box) {
  const auto unit = [](float value) { return std::clamp(value, 0.0f, 1.0f); };
  Box out{unit(box.ymin), unit(box.xmin), unit(box.ymax), unit(box.xmax)};
  widen_at_border(out.ymin, out.ymax);
  widen_at_border(out.xmin, out.xmax);
  return out;
}

// What holds the four corners of a box after `move`, in whole pixels.
template <class Move>
Box around_moved_corners(const Box& box_px, const Move& move) {
  constexpr float kFar = std::numeric_limits<float>::infinity();
  Box out{kFar, kFar, -kFar, -kFar};
  for (const float y : {box_px.ymin, box_px.ymax})
    for (const float x : {box_px.xmin, box_px.xmax}) {
      const PixelPoint exact = move(PixelPoint{y, x}), at{std::trunc(exact.y), std::trunc(exact.x)};
      out = {std::min(out.ymin, at.y), std::min(out.xmin, at.x), std::max(out.ymax, at.y), std::max(out.xmax, at.x)};
    }
  return out;
}

PixelMap rotation_map(float degrees, ImageSize size) {
  const float cosine = std::cos(radians(degrees)), sine = std::sin(radians(degrees));
  const float last_row = static_cast<float>(size.height - 1), last_column = static_cast<float>(size.width - 1);
  PixelMap map{cosine, -sine, 0, sine, cosine, 0};
  map.x0 = (last_column - (cosine * last_column - sine * last_row)) / 2;
  map.y0 = (last_row - (sine * last_column + cosine * last_row)) / 2;
  return map;
}
// Around the middle of the image, where rows are counted upwards.
Box rotated(const Box& box, float degrees, ImageSize size) {
  const float cosine = std::cos(radians(degrees)), sine = std::sin(radians(degrees));
  const Box box_px{-pixels(box.ymin - 0.5f, size.height), pixels(box.xmin - 0.5f, size.width),
                   -pixels(box.ymax - 0.5f, size.height), pixels(box.xmax - 0.5f, size.width)};
  const Box out_px = around_moved_corners(box_px, [&](PixelPoint at) {
    return PixelPoint{cosine * at.y + sine * at.x, -sine * at.y + cosine * at.x};
  });
  const float rows = static_cast<float>(size.height), columns = static_cast<float>(size.width);
  return within_image({-(out_px.ymax / rows - 0.5f), out_px.xmin / columns + 0.5f, -(out_px.ymin / rows - 0.5f),
                       out_px.xmax / columns + 0.5f});
}

Box whole_pixels(const Box& box, ImageSize size) {
  return {pixels(box.ymin, size.height), pixels(box.xmin, size.width), pixels(box.ymax, size.height),
          pixels(box.xmax, size.width)};
}
Box fractions(const Box& box_px, ImageSize size) {
  const float rows = static_cast<float>(size.height), columns = static_cast<float>(size.width);
  return within_image({box_px.ymin / rows, box_px.xmin / columns, box_px.ymax / rows, box_px.xmax / columns});
}

PixelMap shear_x_map(float amount, ImageSize) { return {.xy = amount}; }
Box sheared_x(const Box& box, float amount, ImageSize size) {
  const auto move = [amount](PixelPoint at) { return PixelPoint{at.y, -amount * at.y + at.x}; };
  return fractions(around_moved_corners(whole_pixels(box, size), move), size);
}
PixelMap shear_y_map(float amount, ImageSize) { return {.yx = amount}; }
Box sheared_y(const Box& box, float amount, ImageSize size) {
  const auto move = [amount](PixelPoint at) { return PixelPoint{at.y - amount * at.x, at.x}; };
  return fractions(around_moved_corners(whole_pixels(box, size), move), size);
}
PixelMap translation_x_map(float amount, ImageSize) { return {.x0 = amount}; }
Box translated_x(const Box& box, float amount, ImageSize size) {
  const auto move = [amount](PixelPoint at) { return PixelPoint{at.y, at.x - std::trunc(amount)}; };
  return fractions(around_moved_corners(whole_pixels(box, size), move), size);
}
PixelMap translation_y_map(float amount, ImageSize) { return {.y0 = amount}; }
Box translated_y(const Box& box, float amount, ImageSize size) {
  const auto move = [amount](PixelPoint at) { return PixelPoint{at.y - std::trunc(amount), at.x}; };
  return fractions(around_moved_corners(whole_pixels(box, size), move), size);
}

template <class Value>
void sample(const at::Tensor& image, const PixelMap& map, Value fill, at::Tensor& out) {
  const int64_t rows = image.size(0), columns = image.size(1), channels = image.size(2);
  const Value* from = image.const_data_ptr<Value>();
  Value* to = out.data_ptr<Value>();
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column, to += channels) {
      const float x = static_cast<float>(column), y = static_cast<float>(row);
      const auto from_column = static_cast<int64_t>(std::round(map.xx * x + map.xy * y + map.x0));
      const auto from_row = static_cast<int64_t>(std::round(map.yx * x + map.yy * y + map.y0));
      if (from_row >= 0 && from_row < rows && from_column >= 0 && from_column < columns)
        std::copy_n(from + (from_row * columns + from_column) * channels, channels, to);
      else
        std::fill_n(to, channels, fill);
    }
}
}  // namespace

const Warp kRotation{&rotation_map, &rotated};
const Warp kShearX{&shear_x_map, &sheared_x};
const Warp kShearY{&shear_y_map, &sheared_y};
const Warp kTranslationX{&translation_x_map, &translated_x};
const Warp kTranslationY{&translation_y_map, &translated_y};

at::Tensor warped(const at::Tensor& image, const PixelMap& map, float fill) {
  TORCH_CHECK(image.dim() == 3, "an image must be [H, W, C], got ", image.sizes());
  const at::Tensor in = image.contiguous();
  at::Tensor out = at::empty_like(in);
  if (in.scalar_type() == at::kByte)
    sample(in, map, static_cast<uint8_t>(fill), out);
  else
    sample(in, map, fill, out);
  return out;
}

at::Tensor moved_keypoints(const at::Tensor& keypoints, const PixelMap& map, ImageSize size) {
  const float rows = static_cast<float>(size.height), columns = static_cast<float>(size.width);
  // Back to where the map leads: the middle of pixel i lies at i + 0.5.
  const at::Tensor y = keypoints.select(2, 0) * rows - (map.y0 + 0.5f),
                   x = keypoints.select(2, 1) * columns - (map.x0 + 0.5f);
  const float scale = 1 / (map.xx * map.yy - map.xy * map.yx);
  const at::Tensor moved_y = (y * map.xx - x * map.yx) * scale, moved_x = (x * map.yy - y * map.xy) * scale;
  return at::stack({(moved_y + 0.5f) / rows, (moved_x + 0.5f) / columns}, 2);
}

}  // namespace osprey::data
