#pragma once
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/pending_map.h"

namespace osprey::kernels {

/// The sum that a residual unit ends with, and what the first convolution of the next one makes of it.
struct SummedConvolution {
  at::Tensor sum;          ///< as `pending_sum` gives it
  MapWithStatistics made;  ///< as `normalized_convolution` gives it
};

/// `pending_sum`, and `normalized_convolution` of 1 x 1 of that, in one: by loops for CPUs a piece of the sum is
/// multiplied just after it has been made, while it is in the cache, and its gradient is written only once it has been
/// taken back through the sum. Gradients flow to all arguments.
///
/// input, addend  as for `pending_sum`
/// weights        [O, C, 1, 1] float32, O > 0
/// epsilon        of the statistics
/// throws         c10::Error where sizes or types are not as above
/// operator       osprey::summed_convolution
SummedConvolution summed_convolution(const PendingMap& input, const at::Tensor& addend, const at::Tensor& weights,
                                     double epsilon);

struct SummedConvolutionGradients : PendingSumGradients {
  at::Tensor weights;
};
/// Its gradients.
/// gradient  of the result, each part may be undefined: 0
/// result    as `summed_convolution` gave it
/// operator  osprey::summed_convolution_backward
SummedConvolutionGradients summed_convolution_backward(const SummedConvolution& gradient,
                                                       const SummedConvolution& result, const PendingMap& input,
                                                       const at::Tensor& weights);

}  // namespace osprey::kernels
