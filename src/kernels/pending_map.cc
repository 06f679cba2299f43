#include "osprey/kernels/pending_map.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/batch_norm_steps.h"
#include "kernels/kept_arguments.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/pending_steps.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;
using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

at::Tensor values_operator(const at::Tensor& given, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                           const Optional& gamma, const Optional& beta, double low, double high, int64_t curve) {
  PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (given.is_meta()) return empty_map(given.sizes(), given);
  const Affine affine = prepare(map).value();
  return normalize(map.x, affine);
}

ChannelGradients empty_channels(const at::Tensor& x) {
  const auto channels = [&] { return at::empty({x.size(1)}, x.options().dtype(at::kFloat)); };
  return {channels(), channels(), channels(), channels()};
}

FiveTensors values_backward_operator(const at::Tensor& gradient, const at::Tensor& given, const at::Tensor& mean,
                                     const at::Tensor& inverse_deviation, const Optional& gamma, const Optional& beta,
                                     double low, double high, int64_t curve) {
  TORCH_CHECK(gradient.sizes() == given.sizes(), "expected a gradient of size ", given.sizes(), ", got ",
              gradient.sizes());
  const auto result = [](const at::Tensor& of_x, const ChannelGradients& of) {
    return FiveTensors(of_x, of.mean, of.inverse_deviation, of.gamma, of.beta);
  };
  PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (given.is_meta()) return result(empty_map(given.sizes(), given), empty_channels(given));
  const Affine affine = prepare(map).value();
  const auto [moments, of_x] = take_back(channels_last(gradient.to(given.scalar_type())), map.x, affine);
  return result(of_x, gradients_of_channels(map.x, moments, affine, inverse_deviation));
}

at::Tensor sum_operator(const at::Tensor& given, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                        const Optional& gamma, const Optional& beta, const at::Tensor& addend, double low,
                        double high) {
  check_like(given, addend, "an addend");
  PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, kClamp);
  if (given.is_meta()) return empty_map(given.sizes(), given);
  const Affine affine = prepare(map).value();
  return add_normalized(map.x, affine, channels_last(addend));
}

FiveTensors sum_backward_operator(const at::Tensor& gradient, const Optional& again, const Optional& sum,
                                  const at::Tensor& given, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                                  const Optional& gamma, const Optional& beta, double low, double high) {
  if (sum) check_like(given, *sum, "a sum");
  for (const at::Tensor& part : {gradient, again.value_or(gradient)})
    TORCH_CHECK(part.sizes() == given.sizes(), "expected a gradient of size ", given.sizes(), ", got ", part.sizes());
  TORCH_CHECK(sum || !again, "without a sum, a gradient has one part");
  at::Tensor of_addend = empty_map({0, 0, 0, 0}, given);
  const auto result = [&](const ChannelGradients& of) {
    return FiveTensors(of_addend, of.mean, of.inverse_deviation, of.gamma, of.beta);
  };
  PendingMap map = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, kClamp);
  if (given.is_meta()) {
    if (sum) of_addend = empty_map(given.sizes(), given);
    return result(empty_channels(given));
  }
  const Affine affine = prepare(map).value();
  const auto of_map = [&](const at::Tensor& part) { return channels_last(part.to(given.scalar_type())); };
  const SumGradient of_sum{of_map(gradient), again ? of_map(*again) : at::Tensor()};
  at::Tensor moments;
  if (sum) {
    std::tie(moments, of_addend) = sum_gradient_moments(of_sum, channels_last(*sum), map.x, affine);
  } else {
    moments = gradient_moments(of_sum.gradient, map.x, affine.without_epilogue());
  }
  return result(gradients_of_channels(map.x, moments, affine, inverse_deviation));
}

class PendingValuesNode : public torch::autograd::Function<PendingValuesNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, const Optional& gamma, const Optional& beta,
                            const Epilogue& epilogue) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const PendingMap map{x, mean, inverse_deviation, or_none(gamma), or_none(beta), epilogue};
    context->save_for_backward({x, mean, inverse_deviation, map.gamma, map.beta});
    keep(context, epilogue);
    return pending_values(map);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("pending_values");
    const variable_list saved = context->get_saved_variables();
    const PendingGradients all = pending_values_backward(
        gradients[0], {saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)});
    return {all.x,
            all.mean,
            all.inverse_deviation,
            saved[3].defined() ? all.gamma : at::Tensor(),
            saved[4].defined() ? all.beta : at::Tensor(),
            {}};
  }
};

class PendingSumNode : public torch::autograd::Function<PendingSumNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, const Optional& gamma, const Optional& beta,
                            const at::Tensor& addend, const Epilogue& epilogue) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const PendingMap map{x, mean, inverse_deviation, or_none(gamma), or_none(beta), epilogue};
    const at::Tensor sum = pending_sum(map, addend);
    const bool clamps = epilogue != Epilogue{};
    context->save_for_backward({x, mean, inverse_deviation, map.gamma, map.beta, clamps ? sum : at::Tensor()});
    keep(context, epilogue);
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("pending_sum");
    const variable_list saved = context->get_saved_variables();
    const PendingMap map{saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)};
    const PendingSumGradients all = pending_sum_backward(gradients[0], saved[5], map);
    return {gradient_of_x(all, map),
            all.mean,
            all.inverse_deviation,
            saved[3].defined() ? all.gamma : at::Tensor(),
            saved[4].defined() ? all.beta : at::Tensor(),
            all.addend,
            {}};
  }
};

at::Tensor differentiable_values(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                                 const Optional& gamma, const Optional& beta, double low, double high, int64_t curve) {
  return PendingValuesNode::apply(x, mean, inverse_deviation, gamma, beta, epilogue_of(low, high, curve));
}

at::Tensor differentiable_sum(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse_deviation,
                              const Optional& gamma, const Optional& beta, const at::Tensor& addend, double low,
                              double high) {
  return PendingSumNode::apply(x, mean, inverse_deviation, gamma, beta, addend, epilogue_of(low, high, kClamp));
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "pending_values(Tensor x, Tensor mean, Tensor inverse_deviation, Tensor? gamma, Tensor? beta, float low, "
         "float high, int curve) -> Tensor",
         &values_operator, &differentiable_values);
  define(library,
         "pending_values_backward(Tensor gradient, Tensor x, Tensor mean, Tensor inverse_deviation, Tensor? gamma, "
         "Tensor? beta, float low, float high, int curve) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
         &values_backward_operator);
  define(library,
         "pending_sum(Tensor x, Tensor mean, Tensor inverse_deviation, Tensor? gamma, Tensor? beta, Tensor addend, "
         "float low, float high) -> Tensor",
         &sum_operator, &differentiable_sum);
  define(library,
         "pending_sum_backward(Tensor gradient, Tensor? again, Tensor? sum, Tensor x, Tensor mean, Tensor "
         "inverse_deviation, Tensor? gamma, Tensor? beta, float low, float high) -> (Tensor, Tensor, Tensor, Tensor, "
         "Tensor)",
         &sum_backward_operator);
}

}  // namespace

at::Tensor pending_values(const PendingMap& input) {
  if (!input.mean.defined()) return input.x;
  static const auto operation = find_operator("pending_values", &values_operator);
  return operation.call(input.x, input.mean, input.inverse_deviation, if_defined(input.gamma), if_defined(input.beta),
                        input.epilogue.low, input.epilogue.high, static_cast<int64_t>(input.epilogue.curve));
}

PendingGradients pending_values_backward(const at::Tensor& gradient, const PendingMap& input) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("pending_values_backward", &values_backward_operator);
  const auto [x, mean, inverse_deviation, gamma, beta] = operation.call(
      gradient, input.x, input.mean, input.inverse_deviation, if_defined(input.gamma), if_defined(input.beta),
      input.epilogue.low, input.epilogue.high, static_cast<int64_t>(input.epilogue.curve));
  return {x, mean, inverse_deviation, gamma, beta};
}

at::Tensor pending_sum(const PendingMap& input, const at::Tensor& addend) {
  check_clamps(input.epilogue);
  static const auto operation = find_operator("pending_sum", &sum_operator);
  return operation.call(input.x, input.mean, input.inverse_deviation, if_defined(input.gamma), if_defined(input.beta),
                        addend, input.epilogue.low, input.epilogue.high);
}

PendingSumGradients pending_sum_backward(const at::Tensor& of_sum, const at::Tensor& sum, const PendingMap& input,
                                         const at::Tensor& again) {
  const at::NoGradGuard no_gradients;
  check_clamps(input.epilogue);
  const bool adds = again.defined() && !sum.defined();
  const at::Tensor gradient = adds ? of_sum + again : of_sum;
  static const auto operation = find_operator("pending_sum_backward", &sum_backward_operator);
  const auto [addend, mean, inverse_deviation, gamma, beta] = operation.call(
      gradient, adds ? std::nullopt : if_defined(again), if_defined(sum), input.x, input.mean, input.inverse_deviation,
      if_defined(input.gamma), if_defined(input.beta), input.epilogue.low, input.epilogue.high);
  return {sum.defined() ? addend : gradient, mean, inverse_deviation, gamma, beta};
}

}  // namespace osprey::kernels
