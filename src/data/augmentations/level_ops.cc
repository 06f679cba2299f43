#include "data/augmentations/level_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

namespace osprey::data {
namespace {
using Table = std::array<uint8_t, 256>;
using Histogram = std::array<int64_t, 256>;

at::Tensor checked(const at::Tensor& image) {
  TORCH_CHECK(image.dim() == 3 && image.size(2) == 3 && image.scalar_type() == at::kByte && image.numel() > 0,
              "an image must be [H, W, 3] uint8 and not empty, got ", image.sizes(), " ", image.scalar_type());
  return image.contiguous();
}

uint8_t level(float value) { return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f)); }

uint8_t blended(float from, float to, float factor) {
  const float change = factor * (to - from);
  return level(from + change);
}

template <class Value>
Table table_of(const Value& value) {
  Table table;
  for (int i = 0; i < 256; ++i) table[i] = value(i);
  return table;
}

at::Tensor looked_up(const at::Tensor& image, const std::array<Table, 3>& tables) {
  const at::Tensor in = checked(image);
  at::Tensor out = at::empty_like(in);
  const uint8_t* from = in.const_data_ptr<uint8_t>();
  uint8_t* to = out.data_ptr<uint8_t>();
  for (int64_t i = 0; i < in.numel(); i += 3)
    for (int64_t c = 0; c < 3; ++c) to[i + c] = tables[c][from[i + c]];
  return out;
}
at::Tensor looked_up(const at::Tensor& image, const Table& table) { return looked_up(image, {table, table, table}); }

std::array<Histogram, 3> histograms(const at::Tensor& image) {
  std::array<Histogram, 3> counts{};
  const at::Tensor in = checked(image);
  const uint8_t* values = in.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < in.numel(); ++i) ++counts[i % 3][values[i]];
  return counts;
}

int lowest(const Histogram& counts) {
  return static_cast<int>(std::find_if(counts.begin(), counts.end(), [](int64_t n) { return n > 0; }) - counts.begin());
}
int highest(const Histogram& counts) {
  int value = 255;
  while (counts[value] == 0) --value;
  return value;
}

Table stretched(const Histogram& counts) {
  const auto low = static_cast<float>(lowest(counts)), high = static_cast<float>(highest(counts));
  if (high <= low) return table_of([](int value) { return static_cast<uint8_t>(value); });
  const float scale = 255.0f / (high - low), offset = -low * scale;
  return table_of([&](int value) {
    const float scaled = static_cast<float>(value) * scale;
    return level(scaled + offset);
  });
}

// Each level becomes the number of pixels below it, in steps of a 255th of those below the highest level.
Table equalized(const Histogram& counts) {
  int64_t below = 0;
  for (int value = 0; value < highest(counts); ++value) below += counts[value];
  const int64_t step = below / 255;
  below = 0;
  return table_of([&](int value) {
    if (step == 0) return static_cast<uint8_t>(value);
    const int64_t steps = value == 0 ? 0 : (below + step / 2) / step;
    below += counts[value];
    return static_cast<uint8_t>(std::min<int64_t>(steps, 255));
  });
}

template <class Change>
std::array<Table, 3> tables_of(const at::Tensor& image, const Change& change) {
  const std::array<Histogram, 3> counts = histograms(image);
  return {change(counts[0]), change(counts[1]), change(counts[2])};
}

// TensorFlow's luma of bytes: in fractions of 255 and back.
uint8_t gray_level(const uint8_t* rgb) {
  const float unit = 1.0f / 255.0f;
  const float red = static_cast<float>(rgb[0]) * unit * 0.2989f, green = static_cast<float>(rgb[1]) * unit * 0.587f,
              blue = static_cast<float>(rgb[2]) * unit * 0.114f;
  return level((red + green + blue) * 255.5f);
}

// The sum of weight * value over 3 x 3 pixels around `middle`, row by row, as float32 rounds it.
float smoothed(const uint8_t* middle, int64_t row_stride) {
  float sum = 0;
  for (int64_t y = -1; y <= 1; ++y)
    for (int64_t x = -1; x <= 1; ++x) {
      const float weight = y == 0 && x == 0 ? 5.0f / 13.0f : 1.0f / 13.0f;
      const float term = static_cast<float>(middle[y * row_stride + 3 * x]) * weight;
      sum += term;
    }
  return sum;
}
}  // namespace

at::Tensor auto_contrast(const at::Tensor& image) { return looked_up(image, tables_of(image, &stretched)); }

at::Tensor equalize(const at::Tensor& image) { return looked_up(image, tables_of(image, &equalized)); }

at::Tensor posterize(const at::Tensor& image, int bits) {
  const int shift = std::min(8 - bits, 7);
  return looked_up(image, table_of([&](int value) { return static_cast<uint8_t>(value >> shift << shift); }));
}

at::Tensor solarize(const at::Tensor& image, int threshold) {
  return looked_up(image,
                   table_of([&](int value) { return static_cast<uint8_t>(value < threshold ? value : 255 - value); }));
}

at::Tensor solarize_add(const at::Tensor& image, int addition) {
  return looked_up(image, table_of([&](int value) {
                     return static_cast<uint8_t>(value < 128 ? std::clamp(value + addition, 0, 255) : value);
                   }));
}

at::Tensor enhance_color(const at::Tensor& image, float factor) {
  const at::Tensor in = checked(image);
  at::Tensor out = at::empty_like(in);
  const uint8_t* from = in.const_data_ptr<uint8_t>();
  uint8_t* to = out.data_ptr<uint8_t>();
  for (int64_t i = 0; i < in.numel(); i += 3) {
    const uint8_t gray = gray_level(from + i);
    for (int64_t c = 0; c < 3; ++c) to[i + c] = blended(gray, from[i + c], factor);
  }
  return out;
}

at::Tensor enhance_contrast(const at::Tensor& image, float factor) {
  const uint8_t plain = level(static_cast<float>(image.size(0) * image.size(1)) / 256);
  return looked_up(image, table_of([&](int value) { return blended(plain, static_cast<float>(value), factor); }));
}

at::Tensor enhance_brightness(const at::Tensor& image, float factor) {
  return looked_up(image, table_of([&](int value) { return blended(0, static_cast<float>(value), factor); }));
}

at::Tensor enhance_sharpness(const at::Tensor& image, float factor) {
  const at::Tensor in = checked(image);
  at::Tensor out = in.clone();
  const int64_t rows = in.size(0), columns = in.size(1), row_stride = 3 * columns;
  for (int64_t y = 1; y < rows - 1; ++y) {
    const uint8_t* from = in.const_data_ptr<uint8_t>() + y * row_stride;
    uint8_t* to = out.data_ptr<uint8_t>() + y * row_stride;
    for (int64_t i = 3; i < row_stride - 3; ++i)
      to[i] = blended(level(smoothed(from + i, row_stride)), from[i], factor);
  }
  return out;
}

}  // namespace osprey::data
