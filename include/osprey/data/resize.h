#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace osprey::data {

enum class ResizeMethod { kBilinear, kNearest, kBicubic, kArea };

struct ResizeOptions {
  ResizeMethod method = ResizeMethod::kBilinear;
  bool align_corners = false;  ///< the corner pixels' centres fall together
  bool half_pixel = false;     ///< bilinear and nearest only: pixel centres lie at i + 0.5, as in TensorFlow 2
};

/// Resizes with the arithmetic of TensorFlow 1: output pixel i samples at i * in / out, without half-pixel centres.
/// Bilinear interpolates between two taps in float32, bicubic has A = -0.75, area is the exact mean of the covered box.
///
/// image    [H, W, C] uint8 or float32, H and W at least 1; any row stride, pixels contiguous
/// height, width  of the result, at least 1
/// returns  [height, width, C] float32; the values of the image where the size stays
/// throws   c10::Error when shape or type is not as above
at::Tensor resize(const at::Tensor& image, int64_t height, int64_t width, const ResizeOptions& options = {});

/// The same, written to memory the caller holds: `out` [height, width, C], float32, or uint8 where every value is
/// rounded to the nearest (halves up) and clamped to 0..255. `out` may be a window of a larger canvas.
void resize_into(const at::Tensor& image, at::Tensor out, const ResizeOptions& options = {});

}  // namespace osprey::data
