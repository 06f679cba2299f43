#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/class_loss.h"

/// The losses of `kernels/class_loss.h`, [B, A], with gradients that flow to the logits. Arguments as there.
namespace osprey::losses {

at::Tensor summed_sigmoid_focal(const at::Tensor& logits, const ClassTargets& targets,
                                const kernels::SigmoidFocalOptions& options);

at::Tensor summed_softmax(const at::Tensor& logits, const ClassTargets& targets, double logit_scale);

}  // namespace osprey::losses
