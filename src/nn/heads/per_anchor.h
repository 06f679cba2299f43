#pragma once
#include <ATen/ATen.h>

namespace osprey::nn {

/// [B, anchors * columns, H, W] to [B, H * W * anchors, columns].
inline at::Tensor per_anchor(const at::Tensor& x, int64_t columns) {
  return x.permute({0, 2, 3, 1}).reshape({x.size(0), -1, columns});
}

}  // namespace osprey::nn
