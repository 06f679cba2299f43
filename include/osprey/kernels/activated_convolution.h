#pragma once
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/pending_map.h"
#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

/// The batch norm behind a convolution, and what its values are clamped to.
struct OwnBatchNorm {
  at::Tensor gamma, beta;  ///< [O] float32; undefined: 1, 0
  double epsilon = 0;
  Epilogue clamp;
};

/// The first convolution of the next residual unit, of 1 x 1.
struct NextConvolution {
  at::Tensor weights;  ///< [P, O, 1, 1] float32; undefined: the sum is left to whoever reads it
  double epsilon = 0;  ///< of the statistics of its result
};

struct ActivatedConvolution : BatchNormed {
  MapWithStatistics next;  ///< what the next convolution makes of the result; undefined where there is none
};

/// What a chain of `normalized_convolution` in a residual unit ends with: one more of them, its batch norm and the sum,
/// clamp((y - mean) * inverse_deviation * gamma + beta + addend). Gradients flow from the result, and from that of the
/// next convolution, to all of the input, weights, gamma, beta, addend and next weights. That of y is never written:
/// the convolution makes it of the result's as it reads this. Where the result is one of the limits, nothing flows.
///
/// input, weights, window  as for `normalized_convolution`
/// addend   like y
/// next     is done in one with the sum (`summed_convolution`)
/// returns  the result, twice, with the statistics of y, and what `next` makes of it
/// throws   c10::Error where sizes or types are not as above
ActivatedConvolution activated_convolution(const PendingMap& input, const at::Tensor& weights,
                                           const SlidingWindow& window, const OwnBatchNorm& batch_norm,
                                           const at::Tensor& addend, const NextConvolution& next = {});

}  // namespace osprey::kernels
