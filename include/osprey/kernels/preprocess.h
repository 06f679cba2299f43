#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace osprey::kernels {

/// Bilinear resizing with the arithmetic of TensorFlow 1: place i of the result lies at i * from / to of the source.
struct PreprocessResize {
  at::Tensor source_shapes;       ///< [B, 2] int64: height and width of the pictures, which lie top left, 1 .. those of
                                  ///< `images` (others are refused on a CPU); undefined: no resizing
  int64_t height = 0, width = 0;  ///< of the result
};

struct PreprocessOptions {
  std::array<double, 3> scale = {1, 1, 1}, offset = {0, 0, 0};  ///< of the channels
  std::array<double, 3> pad = {0, 0, 0};                        ///< what padding becomes
  at::ScalarType type = at::kFloat;                             ///< of the result: float32, bfloat16 or float16
};

/// Pictures into what a network takes, in one pass: resizing where asked for, value * scale + offset of each channel,
/// and the padding.
///
/// images       [B, 3, H, W] uint8 or float32
/// true_shapes  [B, 2 or more] int64: height and width of what is not padding in the result; undefined: nothing is
/// returns      [B, 3, H, W] channels_last, or [B, 3, resize.height, resize.width]
/// throws       c10::Error for other types and shapes, and for a picture of 2^30 numbers or more
/// operator     osprey::preprocess
at::Tensor preprocess(const at::Tensor& images, const at::Tensor& true_shapes, const PreprocessOptions& options,
                      const PreprocessResize& resize = {});

}  // namespace osprey::kernels
