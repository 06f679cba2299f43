#include "osprey/kernels/activated_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "kernels/if_defined.h"
#include "kernels/kept_arguments.h"
#include "kernels/no_second_derivative.h"
#include "kernels/pending_steps.h"
#include "kernels/same_again.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/summed_convolution.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

/// The node of the graph of gradients. It keeps what the convolution reads and makes, the result where it has been
/// clamped or read by the next convolution, and what that has made.
class ActivatedConvolutionNode : public torch::autograd::Function<ActivatedConvolutionNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Optional& mean,
                               const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                               const at::Tensor& weights, const Optional& own_gamma, const Optional& own_beta,
                               const at::Tensor& addend, const Optional& next_weights, const Epilogue& epilogue,
                               const SlidingWindow& window, double epsilon, const Epilogue& clamp,
                               double next_epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const PendingMap input{x, or_none(mean), or_none(inverse_deviation), or_none(gamma), or_none(beta), epilogue};
    const MapWithStatistics made = normalized_convolution(input, weights, window, epsilon);
    const PendingMap own{made.y, made.mean, made.inverse_deviation, or_none(own_gamma), or_none(own_beta), clamp};
    const SummedConvolution result = next_weights ? summed_convolution(own, addend, *next_weights, next_epsilon)
                                                  : SummedConvolution{pending_sum(own, addend), {}};
    const bool keeps_sum = next_weights || clamp != Epilogue{};
    const auto& [next_y, next_mean, next_inverse_deviation] = result.made;
    context->save_for_backward({x, input.mean, input.inverse_deviation, input.gamma, input.beta, weights, made.y,
                                made.mean, made.inverse_deviation, own.gamma, own.beta,
                                keeps_sum ? result.sum : at::Tensor(), or_none(next_weights), next_y, next_mean,
                                next_inverse_deviation});
    keep(context, epilogue);
    keep(context, clamp, "own ");
    keep(context, window);
    context->mark_non_differentiable({made.mean, made.inverse_deviation});
    context->set_materialize_grads(false);
    variable_list results = {result.sum, same_again(result.sum), made.mean, made.inverse_deviation};
    if (next_weights) results.insert(results.end(), {next_y, next_mean, next_inverse_deviation});
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("activated_convolution");
    const variable_list saved = context->get_saved_variables();
    const PendingMap input{saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)},
        own{saved[6], saved[7], saved[8], saved[9], saved[10], kept_epilogue(context, "own ")};
    if (!gradients[0].defined()) std::swap(gradients[0], gradients[1]);
    SummedConvolutionGradients of;
    if (const at::Tensor& next_weights = saved[12]; next_weights.defined()) {
      if (gradients[1].defined()) gradients[0] = gradients[0] + gradients[1];
      of = summed_convolution_backward({gradients[0], {gradients[4], gradients[5], gradients[6]}},
                                       {saved[11], {saved[13], saved[14], saved[15]}}, own, next_weights);
    } else {
      if (!gradients[0].defined()) gradients[0] = at::zeros_like(own.x);
      of = {pending_sum_backward(gradients[0], saved[11], own, gradients[1]), {}};
    }
    const NormalizedConvolutionGradients all = normalized_convolution_backward(
        {of.addend, of.mean, of.inverse_deviation}, {own.x, own.mean, own.inverse_deviation}, input, saved[5],
        kept_window(context), {.of_x = context->needs_input_grad(0), .scale = scale_of(own)});
    const auto of_parameter = [](const at::Tensor& parameter, const at::Tensor& gradient) {
      return parameter.defined() ? gradient : at::Tensor();
    };
    return {all.x,
            all.mean,
            all.inverse_deviation,
            of_parameter(input.gamma, all.gamma),
            of_parameter(input.beta, all.beta),
            all.weights,
            of_parameter(own.gamma, of.gamma),
            of_parameter(own.beta, of.beta),
            of.addend,
            of.weights,
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

ActivatedConvolution activated_convolution(const PendingMap& input, const at::Tensor& weights,
                                           const SlidingWindow& window, const OwnBatchNorm& batch_norm,
                                           const at::Tensor& addend, const NextConvolution& next) {
  TORCH_CHECK(batch_norm.clamp.curve == Epilogue::Curve::kClamp, "a convolution's own activation is a clamp");
  const variable_list result = ActivatedConvolutionNode::apply(
      input.x, if_defined(input.mean), if_defined(input.inverse_deviation), if_defined(input.gamma),
      if_defined(input.beta), weights, if_defined(batch_norm.gamma), if_defined(batch_norm.beta), addend,
      if_defined(next.weights), input.epilogue, window, batch_norm.epsilon, batch_norm.clamp, next.epsilon);
  const BatchNormed own{result[0], result[2], result[3], result[1]};
  if (!next.weights.defined()) return {own, {}};
  return {own, {result[4], result[5], result[6]}};
}

}  // namespace osprey::kernels
