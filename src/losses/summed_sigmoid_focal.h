#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/sigmoid_focal.h"

namespace osprey::losses {

/// Sigmoid focal losses summed over the classes, [B, A], by the kernel; arguments as those of `kernels::sigmoid_focal`.
/// Gradients flow to the logits.
at::Tensor summed_sigmoid_focal(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                                const kernels::SigmoidFocalOptions& options);

}  // namespace osprey::losses
