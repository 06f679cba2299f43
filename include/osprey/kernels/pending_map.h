#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/epilogue.h"

namespace osprey::kernels {

/// A map whose batch norm and activation have still to be done: its values are
/// epilogue((x - mean) * inverse_deviation * gamma + beta).
struct PendingMap {
  at::Tensor x;                        ///< [B, C, H, W] float32, bfloat16 or float16
  at::Tensor mean, inverse_deviation;  ///< [C] float32; undefined: nothing is pending, the values are x
  at::Tensor gamma, beta;              ///< [C] float32; undefined: 1, 0
  Epilogue epilogue;
};

/// Gradients of all that a PendingMap consists of, each of the type of that. Undefined where nothing is pending.
struct PendingGradients {
  at::Tensor x, mean, inverse_deviation, gamma, beta;
};

/// The values of a pending map, and the gradients of its parts.
/// gradient  like x
/// throws    c10::Error for maps that `fuses_batch_norm` (batch_norm_activation.h) does not take, and for empty ones
/// operators osprey::pending_values, osprey::pending_values_backward
at::Tensor pending_values(const PendingMap& input);
PendingGradients pending_values_backward(const at::Tensor& gradient, const PendingMap& input);

/// The sum that a residual unit ends with, in one pass over its maps:
/// clamp((x - mean) * inverse_deviation * gamma + beta + addend), with the limits of the epilogue, which is a clamp.
/// Gradients flow to all of these.
/// input    something is pending
/// addend   like x
/// returns  like x
/// throws   c10::Error for other sizes and types
/// operator osprey::pending_sum
at::Tensor pending_sum(const PendingMap& input, const at::Tensor& addend);

struct PendingSumGradients {
  at::Tensor addend;  ///< like x; times gamma * inverse_deviation it is that of x
  at::Tensor mean, inverse_deviation, gamma, beta;
};
/// Its gradients.
/// gradient  like x
/// sum       as `pending_sum` gave it: where it is one of the limits, nothing flows; undefined: all flows, and the
///           addend's is `gradient` itself
/// again     like x, the rest of the gradient, where it comes in two parts; undefined: there is none
/// operator  osprey::pending_sum_backward
PendingSumGradients pending_sum_backward(const at::Tensor& gradient, const at::Tensor& sum, const PendingMap& input,
                                         const at::Tensor& again = {});

}  // namespace osprey::kernels
