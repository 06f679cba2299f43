#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace osprey::kernels {

struct SigmoidFocalOptions {
  double gamma = 0;             ///< 0: plain sigmoid cross entropy
  std::optional<double> alpha;  ///< factor of positive classes, 1 - alpha that of negative ones; none: both count 1
};

struct LossAndSlope {
  at::Tensor loss;   ///< [B, A] float32: summed over the classes
  at::Tensor slope;  ///< [B, A, C] float32: derivative of each anchor's loss by its logits; undefined if not wanted
};

/// Whether `sigmoid_focal` takes these logits: float32 in one block on the CPU.
bool fuses_sigmoid_focal(const at::Tensor& logits);

/// Focal loss and its slope in one pass over the logits.
/// logits   [B, A, C] float32, contiguous, on the CPU
/// targets  [B, A, C] float32, 0..1
/// weights  [B, A, C] or [B, A, 1] float32
/// throws   c10::Error for other types and shapes
/// source   Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, eq. 5
LossAndSlope sigmoid_focal(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                           const SigmoidFocalOptions& options, bool with_slope);

}  // namespace osprey::kernels
