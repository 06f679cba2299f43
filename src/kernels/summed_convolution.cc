#include "osprey/kernels/summed_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu/normalized_convolution.h"
#include "kernels/kept_arguments.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/normalized_convolution_steps.h"
#include "kernels/operator.h"
#include "kernels/pending_steps.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using SixTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Throws c10::Error where the weights are not those of a convolution of 1 x 1 of x.
ConvolutionPlan plan_of(const at::Tensor& x, const at::Tensor& weights) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(1) == x.size(1) && weights.size(2) == 1 &&
                  weights.size(3) == 1,
              "expected maps [B, C, H, W] and weights [O, C, 1, 1], got ", x.sizes(), " and ", weights.sizes());
  return {x, weights, {}};
}

FourTensors summed_operator(const at::Tensor& given, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                            const Optional& gamma, const Optional& beta, const at::Tensor& addend, double low,
                            double high, const at::Tensor& weights, double epsilon) {
  const ConvolutionPlan plan = plan_of(given, weights);
  check_like(given, addend, "an addend");
  PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, kClamp);
  if (given.is_meta()) {
    const auto channels = [&] { return at::empty({weights.size(0)}, weights.options()); };
    return {empty_map(given.sizes(), given), empty_map(plan.sizes, given), channels(), channels()};
  }
  const Affine affine = prepare(map).value();
  const at::Tensor added = channels_last(addend);
  at::Tensor sum;
  cpu::Convolved convolved;
  if (plan.takes_loops(map.x) && !plan.depthwise) {
    sum = empty_map(given.sizes(), given);
    convolved = cpu::summed_dense(map.x, affine, added, weights, plan.sides, sum);
  } else {
    sum = add_normalized(map.x, affine, added);
    convolved = kernels::convolve({sum}, {std::nullopt}, weights, {plan}).front();
  }
  const MapWithStatistics made = with_statistics(convolved, epsilon);
  return {sum, made.y, made.mean, made.inverse_deviation};
}

SixTensors summed_backward_operator(const Optional& gradient_sum, const Optional& gradient_y,
                                    const Optional& gradient_mean, const Optional& gradient_inverse_deviation,
                                    const at::Tensor& sum, const at::Tensor& y, const at::Tensor& y_mean,
                                    const at::Tensor& y_inverse_deviation, const at::Tensor& given,
                                    const at::Tensor& mean, const at::Tensor& inverse_deviation, const Optional& gamma,
                                    const Optional& beta, double low, double high, const at::Tensor& weights) {
  const ConvolutionPlan plan = plan_of(given, weights);
  check_like(given, sum, "a sum");
  TORCH_CHECK(y.sizes() == at::IntArrayRef(plan.sizes) && y.scalar_type() == given.scalar_type(), "a convolution of ",
              given.toString(), " ", given.sizes(), " does not make ", y.toString(), " ", y.sizes());
  const auto check_sizes = [](const Optional& gradient, const at::Tensor& of) {
    TORCH_CHECK(!gradient || gradient->sizes() == of.sizes(), "expected a gradient of size ", of.sizes(), ", got ",
                gradient.value_or(of).sizes());
  };
  check_sizes(gradient_sum, sum);
  check_sizes(gradient_y, y);
  for (const at::Tensor& channels :
       {y_mean, y_inverse_deviation, or_none(gradient_mean), or_none(gradient_inverse_deviation)})
    check_channels(y, channels, "statistics of the result and their gradients");
  PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, kClamp);
  if (given.is_meta()) {
    const auto channels = [&] { return at::empty({given.size(1)}, weights.options()); };
    return {empty_map(given.sizes(), given),    channels(), channels(), channels(), channels(),
            empty_map(weights.sizes(), weights)};
  }
  const Affine affine = prepare(map).value();
  const cpu::ThroughStatistics through =
      through_statistics({or_none(gradient_y), or_none(gradient_mean), or_none(gradient_inverse_deviation)},
                         {y, y_mean, y_inverse_deviation});
  const cpu::ReadSum read{channels_last(sum),
                          gradient_sum ? channels_last(gradient_sum->to(given.scalar_type())) : at::Tensor()};
  cpu::ConvolvedGradients found;
  if (plan.takes_loops(map.x) && !plan.depthwise) {
    found = cpu::summed_dense_backward(through, read, map.x, affine, weights, plan.sides);
  } else {
    const cpu::SharedGradients of_sum =
        convolve_backward({through}, {read.sum}, {std::nullopt}, weights, {plan}, /*of_x=*/true);
    std::tie(found.moments, found.x) =
        sum_gradient_moments({of_sum.maps.front().x, read.again}, read.sum, map.x, affine);
    found.weights = of_sum.weights;
  }
  const ChannelGradients of = gradients_of_channels(map.x, found.moments, affine, inverse_deviation);
  return {found.x, of.mean, of.inverse_deviation, of.gamma, of.beta, as_parameter(found.weights)};
}

class SummedConvolutionNode : public torch::autograd::Function<SummedConvolutionNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mean,
                               const at::Tensor& inverse_deviation, const Optional& gamma, const Optional& beta,
                               const at::Tensor& addend, const at::Tensor& weights, const Epilogue& epilogue,
                               double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const PendingMap map{x, mean, inverse_deviation, or_none(gamma), or_none(beta), epilogue};
    const auto [sum, made] = summed_convolution(map, addend, weights, epsilon);
    context->save_for_backward(
        {x, mean, inverse_deviation, map.gamma, map.beta, weights, sum, made.y, made.mean, made.inverse_deviation});
    keep(context, epilogue);
    context->set_materialize_grads(false);
    return {sum, made.y, made.mean, made.inverse_deviation};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("summed_convolution");
    const variable_list saved = context->get_saved_variables();
    const PendingMap map{saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)};
    const SummedConvolutionGradients all =
        summed_convolution_backward({gradients[0], {gradients[1], gradients[2], gradients[3]}},
                                    {saved[6], {saved[7], saved[8], saved[9]}}, map, saved[5]);
    return {gradient_of_x(all, map),
            all.mean,
            all.inverse_deviation,
            map.gamma.defined() ? all.gamma : at::Tensor(),
            map.beta.defined() ? all.beta : at::Tensor(),
            all.addend,
            all.weights,
            {},
            {}};
  }
};

FourTensors differentiable_summed(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                                  const Optional& gamma, const Optional& beta, const at::Tensor& addend, double low,
                                  double high, const at::Tensor& weights, double epsilon) {
  const variable_list all = SummedConvolutionNode::apply(x, mean, inverse_deviation, gamma, beta, addend, weights,
                                                         epilogue_of(low, high, kClamp), epsilon);
  return {all[0], all[1], all[2], all[3]};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "summed_convolution(Tensor x, Tensor mean, Tensor inverse_deviation, Tensor? gamma, Tensor? beta, Tensor "
         "addend, float low, float high, Tensor weights, float epsilon) -> (Tensor, Tensor, Tensor, Tensor)",
         &summed_operator, &differentiable_summed);
  define(library,
         "summed_convolution_backward(Tensor? gradient_sum, Tensor? gradient_y, Tensor? gradient_mean, Tensor? "
         "gradient_inverse_deviation, Tensor sum, Tensor y, Tensor y_mean, Tensor y_inverse_deviation, Tensor x, "
         "Tensor mean, Tensor inverse_deviation, Tensor? gamma, Tensor? beta, float low, float high, Tensor weights) "
         "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
         &summed_backward_operator);
}

}  // namespace

SummedConvolution summed_convolution(const PendingMap& input, const at::Tensor& addend, const at::Tensor& weights,
                                     double epsilon) {
  check_clamps(input.epilogue);
  static const auto operation = find_operator("summed_convolution", &summed_operator);
  const auto [sum, y, mean, inverse_deviation] =
      operation.call(input.x, input.mean, input.inverse_deviation, if_defined(input.gamma), if_defined(input.beta),
                     addend, input.epilogue.low, input.epilogue.high, weights, epsilon);
  return {sum, {y, mean, inverse_deviation}};
}

SummedConvolutionGradients summed_convolution_backward(const SummedConvolution& gradient,
                                                       const SummedConvolution& result, const PendingMap& input,
                                                       const at::Tensor& weights) {
  const at::NoGradGuard no_gradients;
  check_clamps(input.epilogue);
  static const auto operation = find_operator("summed_convolution_backward", &summed_backward_operator);
  const auto [addend, mean, inverse_deviation, gamma, beta, of_weights] =
      operation.call(if_defined(gradient.sum), if_defined(gradient.made.y), if_defined(gradient.made.mean),
                     if_defined(gradient.made.inverse_deviation), result.sum, result.made.y, result.made.mean,
                     result.made.inverse_deviation, input.x, input.mean, input.inverse_deviation,
                     if_defined(input.gamma), if_defined(input.beta), input.epilogue.low, input.epilogue.high, weights);
  return {{addend, mean, inverse_deviation, gamma, beta}, of_weights};
}

}  // namespace osprey::kernels
