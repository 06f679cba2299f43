#include "nn/quantized_convolution.h"

#include <ATen/ATen.h>

namespace osprey::nn {
namespace {

at::Tensor of_channels(const at::Tensor& values) { return values.view({1, -1, 1, 1}); }

}  // namespace

at::Tensor quantized_convolve(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                              const ConvolutionOptions& options, BatchNorm* norm, Activation activation,
                              const ConvolutionQuantizers& quantizers) {
  if (x.is_meta()) return convolve(x, weights, biases, options);
  const auto result = [&](const at::Tensor& y) { return quantizers.result->forward(y); };
  if (norm == nullptr)
    return result(activate(convolve(x, quantizers.weights->forward(weights), biases, options), activation));

  TORCH_CHECK(!biases.defined(), "a convolution that is rounded has biases or a batch norm");
  const auto rounded = [&](const BatchNorm::Folded& folded) {
    return quantizers.weights->forward(weights * folded.factor.view({-1, 1, 1, 1}));
  };
  if (!norm->uses_batch_statistics()) {
    const BatchNorm::Folded folded = norm->fold();
    return result(activate(convolve(x, rounded(folded), folded.offset, options), activation));
  }
  const auto of_batch = [&](const at::Tensor& y) {
    return quantizers.before_activation ? activate(result(y), activation) : result(activate(y, activation));
  };
  const at::Tensor plain = convolve(x, weights, {}, options);
  if (quantizers.weights->is_waiting()) {  // nothing is rounded: the same by one convolution
    rounded(norm->fold());                 // for its range
    if (!quantizers.before_activation) return result(norm->forward(plain, activation));
    return of_batch(norm->forward(plain));
  }
  const BatchNorm::Folded folded = norm->fold(plain);
  const at::Tensor y = convolve(x, rounded(folded), {}, options);
  const at::Tensor normed = at::addcmul(of_channels(folded.offset), y, of_channels(folded.correction));
  return of_batch(normed.to(plain.scalar_type()));
}

}  // namespace osprey::nn
