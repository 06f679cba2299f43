#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace osprey::kernels {

constexpr int64_t kMostFoldedChannels = 4;  ///< of a pixel

/// Squares of 2 x 2 pixels as pixels of 16 channels: channel 8 i + 4 j + c of a folded pixel is channel c of the pixel
/// in its line i and column j; zeros where there is none.
///
/// x         [B, C, H, W] with C <= 4, float32 or half the bits
/// before    zeros above and to the left of the first pixel
/// size      height and width of the result
/// returns   [B, 16, size[0], size[1]] channels_last; no gradient flows to x
/// throws    c10::Error for other types and shapes
/// operator  osprey::fold_pixels
at::Tensor fold_pixels(const at::Tensor& x, std::array<int64_t, 2> before, std::array<int64_t, 2> size);
/// Whether it takes such pictures.
bool takes_fold_pixels(const at::Tensor& x);

}  // namespace osprey::kernels
