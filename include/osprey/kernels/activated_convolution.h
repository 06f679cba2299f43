#pragma once
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/pending_map.h"
#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

/// The batch norm behind a convolution, and what its values are clamped to.
struct OwnBatchNorm {
  at::Tensor gamma, beta;  ///< [O] float32; undefined: 1, 0
  double epsilon = 0;
  Epilogue clamp;
};

/// What a chain of `normalized_convolution` in a residual unit ends with: one more of them, its batch norm and the sum,
/// clamp((y - mean) * inverse_deviation * gamma + beta + addend). Gradients flow from the result to all of the
/// input, weights, gamma, beta and addend. That of y is never written: the convolution makes it of the result's as it
/// reads this. Where the result is one of the limits, nothing flows.
///
/// input, weights, window  as for `normalized_convolution`
/// addend   like y
/// returns  the result, twice, with the statistics of y
/// throws   c10::Error where sizes or types are not as above
BatchNormed activated_convolution(const PendingMap& input, const at::Tensor& weights, const SlidingWindow& window,
                                  const OwnBatchNorm& batch_norm, const at::Tensor& addend);

}  // namespace osprey::kernels
