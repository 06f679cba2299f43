#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace osprey::data {

/// Changes of levels. Images are [H, W, 3] uint8, H and W at least 1, any strides; a new tensor of the same kind is
/// returned. What falls between two levels becomes the lower one.
///
/// The names and effects are those of Zoph et al., "Learning Data Augmentation Strategies for Object Detection", 2019,
/// appendix A; the arithmetic is that of its authors' program, float32 where it is not whole numbers.

/// Stretches each channel to 0..255; a channel of one level stays.
at::Tensor auto_contrast(const at::Tensor& image);
/// Spreads the levels of each channel so that all are about as frequent; a channel of fewer than 255 pixels beside its
/// highest level stays.
at::Tensor equalize(const at::Tensor& image);
/// Keeps the upper bits of each value: `bits` of them, 0..8, though one at least.
at::Tensor posterize(const at::Tensor& image, int bits);
/// Inverts the values from `threshold` on, 0..256.
at::Tensor solarize(const at::Tensor& image, int threshold);
/// Adds to the values below 128.
at::Tensor solarize_add(const at::Tensor& image, int addition);

/// The four below go from something plain, at factor 0, past the image itself, at 1, to exaggeration.

/// From grey.
at::Tensor enhance_color(const at::Tensor& image, float factor);
/// From one level everywhere: H * W / 256, at most 255. That number is a slip in the authors' program, which means the
/// mean level; the policies were learnt with it.
at::Tensor enhance_contrast(const at::Tensor& image, float factor);
/// From black.
at::Tensor enhance_brightness(const at::Tensor& image, float factor);
/// From a mean over 3 x 3 pixels with five times the weight for the middle; pixels at the border stay.
at::Tensor enhance_sharpness(const at::Tensor& image, float factor);

}  // namespace osprey::data
