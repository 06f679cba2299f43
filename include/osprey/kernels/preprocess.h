#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace osprey::kernels {

struct PreprocessOptions {
  std::array<double, 3> scale = {1, 1, 1}, offset = {0, 0, 0};  ///< of the channels
  std::array<double, 3> pad = {0, 0, 0};                        ///< what padding becomes
  at::ScalarType type = at::kFloat;                             ///< of the result: float32, bfloat16 or float16
};

/// Pictures into what a network takes, in one pass: value * scale + offset of each channel, and the padding.
///
/// images       [B, 3, H, W] uint8 or float32
/// true_shapes  [B, 2 or more] int64: height and width of what is not padding; undefined: nothing is
/// returns      [B, 3, H, W] channels_last
/// throws       c10::Error for other types and shapes
/// operator     osprey::preprocess
at::Tensor preprocess(const at::Tensor& images, const at::Tensor& true_shapes, const PreprocessOptions& options);

}  // namespace osprey::kernels
