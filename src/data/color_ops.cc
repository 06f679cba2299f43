#include "osprey/data/color_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace osprey::data {
namespace {
struct Hsv {
  float hue, saturation, value;  // hue in turns, [0, 1)
};

Hsv to_hsv(const float* rgb) {
  const float r = rgb[0], g = rgb[1], b = rgb[2];
  const float value = std::max({r, g, b}), range = value - std::min({r, g, b});
  Hsv out{0, value > 0 ? range / value : 0, value};
  if (range <= 0) return out;
  const float unit = 1.0f / (6.0f * range);
  if (r == value)
    out.hue = unit * (g - b);
  else if (g == value)
    out.hue = unit * (b - r) + 2.0f / 6.0f;
  else
    out.hue = unit * (r - g) + 4.0f / 6.0f;
  if (out.hue < 0) out.hue += 1;
  return out;
}

void to_rgb(const Hsv& hsv, float* rgb) {
  const float chroma = hsv.saturation * hsv.value, least = hsv.value - chroma, sixth = hsv.hue * 6.0f;
  const auto channel = [&](float ramp) { return std::clamp(ramp, 0.0f, 1.0f) * chroma + least; };
  rgb[0] = channel(std::abs(sixth - 3.0f) - 1.0f);
  rgb[1] = channel(2.0f - std::abs(sixth - 2.0f));
  rgb[2] = channel(2.0f - std::abs(sixth - 4.0f));
}

at::Tensor back_to_levels(const at::Tensor& unit) { return unit.mul(255).clamp_(0, 255); }

// Applies `change` to the HSV value of every pixel.
template <class Change>
at::Tensor in_hsv(const at::Tensor& image, const Change& change) {
  TORCH_CHECK(image.dim() == 3 && image.size(2) == 3, "an RGB image must be [H, W, 3], got ", image.sizes());
  at::Tensor unit = image.div(255).contiguous();
  float* pixels = unit.data_ptr<float>();
  for (int64_t i = 0; i < unit.numel(); i += 3) {
    Hsv hsv = to_hsv(pixels + i);
    change(hsv);
    to_rgb(hsv, pixels + i);
  }
  return back_to_levels(unit);
}
}  // namespace

at::Tensor adjust_brightness(const at::Tensor& image, float delta) {
  return back_to_levels(image.div(255).add_(delta));
}

at::Tensor adjust_contrast(const at::Tensor& image, float factor) {
  const at::Tensor unit = image.div(255), mean = unit.mean(at::IntArrayRef{0, 1}, /*keepdim=*/true);
  return back_to_levels((unit - mean) * factor + mean);
}

at::Tensor adjust_hue(const at::Tensor& image, float delta) {
  return in_hsv(image, [delta](Hsv& hsv) {
    hsv.hue += delta;
    hsv.hue -= std::floor(hsv.hue);
  });
}

at::Tensor adjust_saturation(const at::Tensor& image, float factor) {
  return in_hsv(image, [factor](Hsv& hsv) { hsv.saturation = std::clamp(hsv.saturation * factor, 0.0f, 1.0f); });
}

at::Tensor adjust_gamma(const at::Tensor& image, float gamma, float gain) {
  return back_to_levels(image.div(255).pow_(gamma).mul_(gain));
}

at::Tensor luma(const at::Tensor& image) {
  TORCH_CHECK(image.dim() == 3 && image.size(2) == 3, "an RGB image must be [H, W, 3], got ", image.sizes());
  return image.select(2, 0)
      .mul(0.2989f)
      .add_(image.select(2, 1), 0.587f)
      .add_(image.select(2, 2), 0.114f)
      .unsqueeze_(2);
}

}  // namespace osprey::data
