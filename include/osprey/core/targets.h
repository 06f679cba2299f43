#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace osprey {

/// For every anchor: the box it belongs to, or one of the two values below.
struct Match {
  static constexpr int64_t kBackground = -1, kIgnore = -2;
  at::Tensor box;  ///< [B, A] int64: index into the M boxes, kBackground or kIgnore
};

/// What the losses compare the predictions with.
struct Targets {
  at::Tensor classes;        ///< [B, A, C + 1] float32, background first
  at::Tensor class_weights;  ///< [B, A, C + 1] float32
  at::Tensor boxes;          ///< [B, A, K] float32, encoded relative to the anchors
  at::Tensor box_weights;    ///< [B, A] float32; their sum over the batch is the loss normaliser
  Match match;
};

}  // namespace osprey
