// The node that `normalized_convolution` is in a graph of gradients.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels/kept_arguments.h"
#include "kernels/window_of.h"
#include "osprey/kernels/normalized_convolution.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

class NormalizedConvolutionNode : public torch::autograd::Function<NormalizedConvolutionNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Optional& mean,
                               const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                               const at::Tensor& weights, const Epilogue& epilogue, const SlidingWindow& window,
                               double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const PendingMap input{x, or_none(mean), or_none(inverse_deviation), or_none(gamma), or_none(beta), epilogue};
    const MapWithStatistics result = normalized_convolution(input, weights, window, epsilon);
    context->save_for_backward({x, input.mean, input.inverse_deviation, input.gamma, input.beta, weights, result.y,
                                result.mean, result.inverse_deviation});
    keep(context, epilogue);
    keep(context, window);
    context->set_materialize_grads(false);
    return {result.y, result.mean, result.inverse_deviation};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const NormalizedConvolutionGradients all =
        normalized_convolution_backward({gradients[0], gradients[1], gradients[2]}, {saved[6], saved[7], saved[8]},
                                        {saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)},
                                        saved[5], kept_window(context), {.of_x = context->needs_input_grad(0)});
    return {all.x,
            all.mean,
            all.inverse_deviation,
            saved[3].defined() ? all.gamma : at::Tensor(),
            saved[4].defined() ? all.beta : at::Tensor(),
            all.weights,
            {},
            {},
            {}};
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor> differentiable_convolution(const at::Tensor& x, const Optional& mean,
                                                                          const Optional& inverse_deviation,
                                                                          const Optional& gamma, const Optional& beta,
                                                                          double low, double high, int64_t curve,
                                                                          const at::Tensor& weights, int64_t stride,
                                                                          at::IntArrayRef padding, double epsilon) {
  const variable_list result =
      NormalizedConvolutionNode::apply(x, mean, inverse_deviation, gamma, beta, weights, epilogue_of(low, high, curve),
                                       window_of(stride, padding), epsilon);
  return {result[0], result[1], result[2]};
}

TORCH_LIBRARY_IMPL(osprey, Autograd, library) { library.impl("normalized_convolution", &differentiable_convolution); }

}  // namespace
}  // namespace osprey::kernels
