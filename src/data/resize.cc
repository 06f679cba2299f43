#include "osprey/data/resize.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

// The loops below run over whole rows; they are worth the compiler's vectoriser, also where the build asks for -O2.
#if defined(__GNUC__) && !defined(__clang__)
#define OSPREY_ROW_LOOP __attribute__((optimize("O3")))
#else
#define OSPREY_ROW_LOOP
#endif

namespace osprey::data {
namespace {
// The weighted input positions behind one output position.
struct Taps {
  std::vector<int64_t> index;  // count per output position
  std::vector<float> weight;
  int64_t count = 1;
};

float scale_of(int64_t in, int64_t out, bool align_corners) {
  return align_corners && out > 1 ? static_cast<float>(in - 1) / static_cast<float>(out - 1)
                                  : static_cast<float>(in) / static_cast<float>(out);
}

// Two taps: the weight stored is that of the second.
Taps bilinear_taps(int64_t in, int64_t out, const ResizeOptions& options) {
  const float scale = scale_of(in, out, options.align_corners);
  Taps taps;
  taps.count = 2;
  for (int64_t i = 0; i < out; ++i) {
    const float at = options.half_pixel ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
    const float floor = std::floor(at);
    const int64_t lower = static_cast<int64_t>(floor);
    const int64_t upper = options.half_pixel ? static_cast<int64_t>(std::ceil(at)) : lower + 1;
    taps.index.push_back(std::clamp<int64_t>(lower, 0, in - 1));
    taps.index.push_back(std::clamp<int64_t>(upper, 0, in - 1));
    taps.weight.push_back(at - floor);
  }
  return taps;
}

Taps nearest_taps(int64_t in, int64_t out, const ResizeOptions& options) {
  const float scale = scale_of(in, out, options.align_corners);
  Taps taps;
  for (int64_t i = 0; i < out; ++i) {
    const float at = (static_cast<float>(i) + (options.half_pixel ? 0.5f : 0.0f)) * scale;
    const float whole = options.align_corners ? std::round(at) : std::floor(at);
    taps.index.push_back(std::clamp<int64_t>(static_cast<int64_t>(whole), 0, in - 1));
    taps.weight.push_back(1.0f);
  }
  return taps;
}

// Keys' cubic with A = -0.75, its argument rounded to 1/1024 as the original's table is.
Taps bicubic_taps(int64_t in, int64_t out, const ResizeOptions& options) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return static_cast<float>(((kA + 2) * x - (kA + 3)) * x * x + 1); };
  const auto far = [](double x) { return static_cast<float>(((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA); };
  const float scale = scale_of(in, out, options.align_corners);
  Taps taps;
  taps.count = 4;
  for (int64_t i = 0; i < out; ++i) {
    const float at = static_cast<float>(i) * scale;
    const int64_t whole = static_cast<int64_t>(at);
    const double x = static_cast<double>(std::lrint((at - static_cast<float>(whole)) * 1024)) / 1024;
    for (int64_t k = -1; k <= 2; ++k) taps.index.push_back(std::clamp<int64_t>(whole + k, 0, in - 1));
    taps.weight.insert(taps.weight.end(), {far(1 + x), near(x), near(1 - x), far(2 - x)});
  }
  return taps;
}

// The share of every input pixel in the box that an output pixel covers; as many taps as the widest box needs.
Taps area_taps(int64_t in, int64_t out, const ResizeOptions& options) {
  const float scale = scale_of(in, out, options.align_corners);
  Taps taps;
  if (scale == 0) {  // corners of a single pixel are aligned: it is what every box lies in
    taps.index.assign(static_cast<size_t>(out), 0);
    taps.weight.assign(static_cast<size_t>(out), 1.0f);
    return taps;
  }
  taps.count = static_cast<int64_t>(std::ceil(scale)) + 1;
  for (int64_t i = 0; i < out; ++i) {
    const float begin = static_cast<float>(i) * scale, end = static_cast<float>(i + 1) * scale;
    const int64_t first = static_cast<int64_t>(std::floor(begin));
    for (int64_t k = first; k < first + taps.count; ++k) {
      const float low = static_cast<float>(k), high = static_cast<float>(k + 1);
      // within one pixel the difference of the ends would have lost what the scale still has
      const float covered = low < begin && high > end ? scale : std::min(high, end) - std::max(low, begin);
      taps.index.push_back(std::clamp<int64_t>(k, 0, in - 1));
      taps.weight.push_back(std::max(covered, 0.0f) / scale);
    }
  }
  return taps;
}

Taps taps_of(int64_t in, int64_t out, const ResizeOptions& options) {
  switch (options.method) {
    case ResizeMethod::kNearest:
      return nearest_taps(in, out, options);
    case ResizeMethod::kBicubic:
      return bicubic_taps(in, out, options);
    case ResizeMethod::kArea:
      return area_taps(in, out, options);
    default:
      return bilinear_taps(in, out, options);
  }
}

template <class Pixel>
OSPREY_ROW_LOOP void lerp_rows(const Pixel* __restrict top, const Pixel* __restrict bottom, float weight, int64_t n,
                               float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    const float a = static_cast<float>(top[i]), b = static_cast<float>(bottom[i]);
    out[i] = a + (b - a) * weight;
  }
}

template <class Pixel>
OSPREY_ROW_LOOP void add_row(const Pixel* __restrict row, float weight, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] += static_cast<float>(row[i]) * weight;
}

OSPREY_ROW_LOOP void store_row(const float* __restrict row, int64_t n, uint8_t* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = std::min(std::max(row[i] + 0.5f, 0.0f), 255.0f);
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(value));
  }
}

void store_row(const float* row, int64_t n, float* out) { std::memcpy(out, row, n * sizeof(float)); }

// Four floats at once: the three channels of a pixel and one that the next pixel overwrites.
typedef float Pixel4 __attribute__((vector_size(16)));

void lerp_columns_rgb(const float* row, const Taps& taps, int64_t width, float* out) {
  for (int64_t x = 0; x < width; ++x) {
    Pixel4 a, b;
    std::memcpy(&a, row + 3 * taps.index[2 * x], sizeof a);
    std::memcpy(&b, row + 3 * taps.index[2 * x + 1], sizeof b);
    a += (b - a) * taps.weight[x];
    std::memcpy(out + 3 * x, &a, sizeof a);
  }
}

void lerp_columns(const float* row, const Taps& taps, int64_t width, int64_t channels, float* out) {
  for (int64_t x = 0; x < width; ++x) {
    const float *a = row + channels * taps.index[2 * x], *b = row + channels * taps.index[2 * x + 1];
    for (int64_t c = 0; c < channels; ++c) out[channels * x + c] = a[c] + (b[c] - a[c]) * taps.weight[x];
  }
}

void add_columns(const float* row, const Taps& taps, int64_t width, int64_t channels, float* out) {
  for (int64_t x = 0; x < width; ++x) {
    for (int64_t c = 0; c < channels; ++c) {
      float sum = 0;
      for (int64_t k = x * taps.count; k < (x + 1) * taps.count; ++k)
        sum += row[channels * taps.index[k] + c] * taps.weight[k];
      out[channels * x + c] = sum;
    }
  }
}

// Rows first: they are contiguous, so the larger part of the work runs over whole vectors.
template <class In, class Out>
void resize_rows(const at::Tensor& image, at::Tensor& out, const ResizeOptions& options) {
  const int64_t channels = image.size(2), row_size = image.size(1) * channels, width = out.size(1);
  const Taps rows = taps_of(image.size(0), out.size(0), options), columns = taps_of(image.size(1), width, options);
  const bool bilinear = options.method == ResizeMethod::kBilinear;
  std::vector<float> mixed(row_size + 1), line(width * channels + 1);
  const In* source = image.const_data_ptr<In>();
  Out* target = out.data_ptr<Out>();
  const int64_t stride = image.stride(0), out_stride = out.stride(0);

  for (int64_t y = 0; y < out.size(0); ++y) {
    const int64_t* index = &rows.index[y * rows.count];
    if (bilinear) {
      lerp_rows(source + index[0] * stride, source + index[1] * stride, rows.weight[y], row_size, mixed.data());
      if (channels == 3)
        lerp_columns_rgb(mixed.data(), columns, width, line.data());
      else
        lerp_columns(mixed.data(), columns, width, channels, line.data());
    } else {
      std::fill(mixed.begin(), mixed.end(), 0.0f);
      for (int64_t k = 0; k < rows.count; ++k)
        add_row(source + index[k] * stride, rows.weight[y * rows.count + k], row_size, mixed.data());
      add_columns(mixed.data(), columns, width, channels, line.data());
    }
    store_row(line.data(), width * channels, target + y * out_stride);
  }
}

template <class Tensor>
void check(const Tensor& image, const char* name) {
  TORCH_CHECK(image.dim() == 3 && image.size(0) > 0 && image.size(1) > 0 && image.size(2) > 0, name,
              " must be [H, W, C] and not empty, got ", image.sizes());
  TORCH_CHECK(image.scalar_type() == at::kByte || image.scalar_type() == at::kFloat, name,
              " must be uint8 or float32, got ", image.scalar_type());
}
bool has_contiguous_rows(const at::Tensor& image) {
  return image.stride(2) == 1 && (image.stride(1) == image.size(2) || image.size(1) == 1);
}
}  // namespace

void resize_into(const at::Tensor& image, at::Tensor out, const ResizeOptions& options) {
  check(image, "image");
  check(out, "out");
  TORCH_CHECK(image.size(2) == out.size(2), "image and out must have equal channels, got ", image.sizes(), " and ",
              out.sizes());
  TORCH_CHECK(has_contiguous_rows(out), "the rows of out must be contiguous");
  const at::Tensor source = has_contiguous_rows(image) ? image : image.contiguous();
  const bool bytes = source.scalar_type() == at::kByte, to_bytes = out.scalar_type() == at::kByte;
  if (bytes && to_bytes)
    resize_rows<uint8_t, uint8_t>(source, out, options);
  else if (bytes)
    resize_rows<uint8_t, float>(source, out, options);
  else if (to_bytes)
    resize_rows<float, uint8_t>(source, out, options);
  else
    resize_rows<float, float>(source, out, options);
}

at::Tensor resize(const at::Tensor& image, int64_t height, int64_t width, const ResizeOptions& options) {
  TORCH_CHECK(height > 0 && width > 0, "a picture cannot be resized to ", height, " x ", width);
  check(image, "image");
  at::Tensor out = at::empty({height, width, image.size(2)}, at::kFloat);
  resize_into(image, out, options);
  return out;
}

}  // namespace osprey::data
