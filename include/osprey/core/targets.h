#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace osprey {

/// For every anchor: the box it belongs to, or one of the two values below.
struct Match {
  static constexpr int64_t kBackground = -1, kIgnore = -2;
  at::Tensor box;  ///< [B, A] int64: index into the M boxes, kBackground or kIgnore
};

/// What the class predictions of many anchors are compared with. Anchors of one box want the same, so that it is
/// written down once for each of R rows, which are few, and each anchor names its row.
struct ClassTargets {
  at::Tensor rows;     ///< [B, R, C] float32, 0..1
  at::Tensor weights;  ///< [B, R, C] float32, or [B, R, 1] for the same weight in every class
  at::Tensor row;      ///< [B, A] int64 in [0, R)

  /// Written out for every anchor: [B, A, C].
  at::Tensor of_anchors() const;
  /// [B, A, C] or [B, A, 1]
  at::Tensor weights_of_anchors() const;
};

/// A row per anchor.  targets [B, A, C] float32, weights [B, A, C] or [B, A, 1] float32
ClassTargets class_targets(const at::Tensor& targets, const at::Tensor& weights);

/// What the losses compare the predictions with.
struct Targets {
  ClassTargets classes;    ///< C + 1 columns, background first
  at::Tensor boxes;        ///< [B, A, K] float32, encoded relative to the anchors; undefined where nobody wants codes
  at::Tensor box_weights;  ///< [B, A] float32; their sum over the batch is the loss normaliser
  Match match;
  at::Tensor truth;  ///< [B, M, 4] float32: the boxes that `match` counts
};

/// Looks up a row for every anchor.  rows [B, R, ...], row [B, A] int64 -> [B, A, ...]
at::Tensor rows_of_anchors(const at::Tensor& rows, const at::Tensor& row);

}  // namespace osprey
