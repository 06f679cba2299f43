#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "osprey/core/targets.h"

/// Classification losses and their slopes in one pass over the logits.
namespace osprey::kernels {

struct LossAndSlope {
  at::Tensor loss;   ///< [B, A] float32: summed over the classes
  at::Tensor slope;  ///< [B, A, C] float32: derivative of each anchor's loss by its logits; undefined if not wanted
};

/// Whether the losses below take these logits: [B, A, C] float32 in one block on the CPU.
bool fuses_class_loss(const at::Tensor& logits);

struct SigmoidFocalOptions {
  double gamma = 0;             ///< 0: plain sigmoid cross entropy
  std::optional<double> alpha;  ///< factor of positive classes, 1 - alpha that of negative ones; none: both count 1
};

/// Sigmoid cross entropy of each class times (1 - p_t)^gamma, the weight and alpha.
/// logits      such that `fuses_class_loss`
/// targets     rows and weights float32; rows that lie outside [0, R) are refused
/// with_slope  false where no gradient is wanted, which saves its memory
/// throws      c10::Error for other types and shapes
/// source      Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, eq. 5
LossAndSlope sigmoid_focal(const at::Tensor& logits, const ClassTargets& targets, const SigmoidFocalOptions& options,
                           bool with_slope);

/// -sum over the classes of target * log(softmax(logits / logit_scale)), times the mean weight of the anchor's classes.
/// Arguments and errors as above.
LossAndSlope softmax_cross_entropy(const at::Tensor& logits, const ClassTargets& targets, double logit_scale,
                                   bool with_slope);

}  // namespace osprey::kernels
