#pragma once
#include <ATen/core/Tensor.h>

namespace osprey::data {

/// Changes of colour. Images are [H, W, 3] float32 RGB in 0..255; a new tensor is returned, clamped to 0..255 where
/// said. The arithmetic is TensorFlow's, on values divided by 255.

/// Adds delta * 255; clamped.
at::Tensor adjust_brightness(const at::Tensor& image, float delta);
/// Moves each channel away from its mean over the image by `factor`; clamped.
at::Tensor adjust_contrast(const at::Tensor& image, float factor);
/// Turns the hue (HSV) by `delta` full turns; clamped.
at::Tensor adjust_hue(const at::Tensor& image, float delta);
/// Multiplies the saturation (HSV) by `factor`, at most to 1; clamped.
at::Tensor adjust_saturation(const at::Tensor& image, float factor);
/// gain * (image / 255)^gamma * 255; clamped.
at::Tensor adjust_gamma(const at::Tensor& image, float gamma, float gain);
/// 0.2989 R + 0.587 G + 0.114 B, as [H, W, 1] float32.
at::Tensor luma(const at::Tensor& image);

}  // namespace osprey::data
