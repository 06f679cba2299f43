#include "nn/quantized_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "nn/batch_norm_activation.h"
#include "nn/convolution_operation.h"
#include "osprey/nn/multiply_adds.h"

namespace osprey::nn {
namespace {

at::Tensor with_factor(const at::Tensor& weights, const BatchNorm::Folded& folded) {
  return weights * folded.factor.view({-1, 1, 1, 1});
}

void note_weights(const ConvolutionQuantizers& quantizers, const at::Tensor& weights, const BatchNorm& norm) {
  const at::NoGradGuard no_gradients;
  quantizers.weights->note(with_factor(weights, norm.fold()));
}

/// A batch norm by the statistics of what the convolution makes by itself.
BatchNorm::Folded fold(BatchNorm& norm, const at::Tensor& x, const at::Tensor& weights,
                       const ConvolutionOptions& options) {
  const kernels::SlidingWindow window = window_over(x, options);
  if (!norm.can_be_left(Activation::kNone) || !takes_normalized_operation(x, weights, options, window))
    return norm.fold(convolve(x, weights, {}, options));
  const kernels::MapWithStatistics made =
      kernels::normalized_convolution({.x = as_autocast(x)}, weights, window, norm.epsilon());
  count_multiply_adds(made.y.numel() * (weights.numel() / weights.size(0)));
  return norm.fold(made);
}

}  // namespace

at::Tensor quantized_convolve(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                              const ConvolutionOptions& options, BatchNorm* norm, Activation activation,
                              const ConvolutionQuantizers& quantizers) {
  if (x.is_meta()) return convolve(x, weights, biases, options);
  if (norm == nullptr)
    return quantizers.result->forward(
        activate(convolve(x, quantizers.weights->forward(weights), biases, options), activation));

  TORCH_CHECK(!biases.defined(), "a convolution that is rounded has biases or a batch norm");
  if (!norm->uses_batch_statistics()) {
    const BatchNorm::Folded folded = norm->fold();
    const at::Tensor rounded = quantizers.weights->forward(with_factor(weights, folded));
    return quantizers.result->forward(activate(convolve(x, rounded, folded.shift, options), activation));
  }
  const auto of_batch = [&](kernels::PendingMap y) {
    if (quantizers.before_activation) return activate(quantizers.result->forward(y), activation);
    const auto epilogue = epilogue_of(activation);
    if (!epilogue) return quantizers.result->forward(activate(kernels::pending_values(y), activation));
    y.epilogue = *epilogue;
    return quantizers.result->forward(y);
  };
  if (quantizers.weights->is_waiting() &&
      quantizers.result->is_waiting()) {  // nothing is rounded: the same by one convolution
    note_weights(quantizers, weights, *norm);
    const at::Tensor plain = convolve(x, weights, {}, options);
    if (!quantizers.before_activation) return quantizers.result->forward(norm->forward(plain, activation));
    return of_batch({.x = norm->forward(plain)});
  }
  const BatchNorm::Folded folded = fold(*norm, x, weights, options);
  const at::Tensor rounded = quantizers.weights->forward(with_factor(weights, folded));
  return of_batch({convolve(x, rounded, {}, options), folded.mean, folded.correction, {}, folded.shift, {}});
}

void note_ranges(const ConvolutionQuantizers& quantizers, const at::Tensor& weights, const BatchNorm& norm,
                 const kernels::PendingMap& y) {
  note_weights(quantizers, weights, norm);
  kernels::PendingMap rounded = y;
  if (quantizers.before_activation) rounded.epilogue = {};
  quantizers.result->note(rounded);
}

}  // namespace osprey::nn
