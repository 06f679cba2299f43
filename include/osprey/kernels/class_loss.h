#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "osprey/core/targets.h"

/// Classification losses and their slopes in one pass over the logits.
namespace osprey::kernels {

struct LossAndSlope {
  at::Tensor loss;   ///< [B, A] float32: summed over the classes; gradients flow to the logits
  at::Tensor slope;  ///< like the logits (float32 for float16): derivative of each anchor's loss by its logits;
                     ///< undefined if not asked for
};

/// Whether the losses below take these logits: [B, A, C] of float32, bfloat16 or float16 in one block, on a device that
/// there are kernels for.
bool takes_class_loss(const at::Tensor& logits);

struct SigmoidFocalOptions {
  double gamma = 0;             ///< 0: plain sigmoid cross entropy
  std::optional<double> alpha;  ///< factor of positive classes, 1 - alpha that of negative ones; none: both count 1
};

/// Sigmoid cross entropy of each class times (1 - p_t)^gamma, the weight and alpha. Arithmetic is in float32.
/// logits      such that `takes_class_loss`
/// targets     rows and weights float32; on the CPU, rows that lie outside [0, R) are refused
/// with_slope  whether the caller wants the slope for itself
/// throws      c10::Error for other types and shapes
/// source      Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017, eq. 5
/// operator    osprey::sigmoid_focal_loss
LossAndSlope sigmoid_focal(const at::Tensor& logits, const ClassTargets& targets, const SigmoidFocalOptions& options,
                           bool with_slope = false);

/// -sum over the classes of target * log(softmax(logits / logit_scale)), times the mean weight of the anchor's classes.
/// The slope is TensorFlow's, weight / logit_scale * (softmax - target) whatever the targets sum to, which is the
/// derivative where they sum to one. Arguments and errors as above; there has to be a class.
/// source      tf.nn.softmax_cross_entropy_with_logits
/// operator    osprey::softmax_cross_entropy_loss
LossAndSlope softmax_cross_entropy(const at::Tensor& logits, const ClassTargets& targets, double logit_scale,
                                   bool with_slope = false);

}  // namespace osprey::kernels
