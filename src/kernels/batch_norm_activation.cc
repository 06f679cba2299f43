#include "osprey/kernels/batch_norm_activation.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <utility>

#include "kernels/batch_norm_steps.h"
#include "kernels/kept_arguments.h"
#include "kernels/map_passes.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/same_again.h"
#include "kernels/with_elements.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Sums of each channel, and of how many values.
struct CountedSums {
  at::Tensor sums;
  double count;
};

/// Those of all replicas, of whom each has `count` values.   sums  are left as they are
CountedSums over_replicas(const ReplicaSum* over, const at::Tensor& sums, int64_t count) {
  if (over == nullptr) return {sums, static_cast<double>(count)};
  const at::Tensor of_all = added_up(sums).clone();
  over->sum(of_all);
  return {of_all, static_cast<double>(count * over->replicas)};
}

at::Tensor channels(const at::Tensor& x) { return at::empty({x.size(1)}, x.options().dtype(at::kFloat)); }

void check_addend(const at::Tensor& x, const at::Tensor& addend, const char* name, const Epilogue& epilogue) {
  if (!addend.defined()) return;
  check_like(x, addend, name);
  TORCH_CHECK(epilogue.curve == Epilogue::Curve::kClamp, "a sum is clamped or nothing");
}

BatchNormed forward_pass(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& addend,
                         double epsilon, const Epilogue& epilogue, const ReplicaSum* over) {
  check_normalizable(x);
  check_addend(x, addend, "an addend", epilogue);
  check_channels(x, gamma, "scales");
  check_channels(x, beta, "shifts");
  if (x.is_meta()) return {empty_map(x.sizes(), x), channels(x), channels(x), {}};
  const auto [sums, count] = over_replicas(over, moments(x), x.numel() / x.size(1));
  const auto [mean, inverse_deviation] = statistics(sums, count, epsilon);
  const Affine affine(x, gamma, beta, mean, inverse_deviation, epilogue);
  return {addend.defined() ? add_normalized(x, affine, channels_last(addend)) : normalize(x, affine),
          mean,
          inverse_deviation,
          {}};
}

/// A gradient of the result, maybe in two parts.
struct GradientOfResult {
  at::Tensor y, again;
};

/// sum  y where an addend had come in; undefined: there was none
BatchNormGradients backward_pass(const GradientOfResult& of_result, const at::Tensor& x, const at::Tensor& gamma,
                                 const at::Tensor& beta, const BatchNormed& statistics, const Epilogue& epilogue,
                                 const at::Tensor& sum, const ReplicaSum* over) {
  check_normalizable(x);
  check_addend(x, sum, "a sum", epilogue);
  for (const at::Tensor& values : {gamma, beta, statistics.mean, statistics.inverse_deviation})
    check_channels(x, values, "scales, shifts, means and inverse deviations");
  TORCH_CHECK(of_result.y.defined(), "expected a gradient of the result, got none");
  for (const at::Tensor& part : {of_result.y, of_result.again})
    TORCH_CHECK(!part.defined() || part.sizes() == x.sizes(), "expected a gradient of size ", x.sizes(), ", got ",
                part.sizes());
  TORCH_CHECK(sum.defined() || !of_result.again.defined(), "only the gradient of a sum comes in two parts");
  if (x.is_meta())
    return {empty_map(x.sizes(), x), channels(x), channels(x), sum.defined() ? empty_map(x.sizes(), x) : at::Tensor()};
  const auto like_x = [&](const at::Tensor& part) {
    return part.defined() ? channels_last(part.to(x.scalar_type())) : part;
  };
  at::Tensor gradient = like_x(of_result.y);
  Affine affine(x, gamma, beta, statistics.mean, statistics.inverse_deviation, epilogue);
  BatchNormGradients result;
  at::Tensor sums;
  if (sum.defined()) {
    std::tie(sums, result.addend) =
        sum_gradient_moments({gradient, like_x(of_result.again)}, channels_last(sum), x, affine);
    affine = affine.without_epilogue();
    gradient = result.addend;
  } else {
    sums = gradient_moments(gradient, x, affine);
  }
  const at::Tensor inverse_deviation = statistics.inverse_deviation.contiguous();
  const at::Tensor slope = channels(x), offset = channels(x);
  result.gamma = channels(x);
  result.beta = channels(x);
  const auto [of_all, count] = over_replicas(over, sums, x.numel() / x.size(1));
  const device::InputCoefficients for_input{count, inverse_deviation.const_data_ptr<float>(), affine.channels.scale,
                                            slope.mutable_data_ptr<float>(), offset.mutable_data_ptr<float>()};
  const device::ParameterGradients for_parameters{inverse_deviation.const_data_ptr<float>(),
                                                  result.gamma.mutable_data_ptr<float>(),
                                                  result.beta.mutable_data_ptr<float>()};
  if (over == nullptr) {
    finish_sums(sums, device::Both<device::InputCoefficients, device::ParameterGradients>{for_input, for_parameters});
  } else {
    finish_sums(of_all, for_input);
    finish_sums(sums, for_parameters);
  }
  result.x = spread(gradient, x, affine, slope, offset);
  return result;
}

using Optional = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

ThreeTensors forward_operator(const at::Tensor& x, const Optional& gamma, const Optional& beta, const Optional& addend,
                              double epsilon, double low, double high, int64_t curve) {
  const BatchNormed result =
      forward_pass(x, or_none(gamma), or_none(beta), or_none(addend), epsilon, epilogue_of(low, high, curve), nullptr);
  return {result.y, result.mean, result.inverse_deviation};
}

FourTensors backward_operator(const at::Tensor& gradient_y, const Optional& gradient_again, const at::Tensor& x,
                              const Optional& gamma, const Optional& beta, const Optional& sum, const at::Tensor& mean,
                              const at::Tensor& inverse_deviation, double low, double high, int64_t curve) {
  const BatchNormGradients result =
      backward_pass({gradient_y, or_none(gradient_again)}, x, or_none(gamma), or_none(beta),
                    {{}, mean, inverse_deviation}, epilogue_of(low, high, curve), or_none(sum), nullptr);
  return {result.x, result.gamma, result.beta, sum ? result.addend : empty_map({0, 0, 0, 0}, x)};
}

/// The operator; without it where replicas are asked in the middle, which is not for an operator's arguments.
BatchNormed call_forward(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, const at::Tensor& addend,
                         double epsilon, const Epilogue& epilogue, const ReplicaSum* over) {
  if (over != nullptr) return forward_pass(x, gamma, beta, addend, epsilon, epilogue, over);
  static const auto operation = find_operator("batch_norm_activation", &forward_operator);
  const auto [y, mean, inverse_deviation] =
      operation.call(x, if_defined(gamma), if_defined(beta), if_defined(addend), epsilon, epilogue.low, epilogue.high,
                     static_cast<int64_t>(epilogue.curve));
  return {y, mean, inverse_deviation, {}};
}

BatchNormGradients call_backward(const GradientOfResult& of_result, const at::Tensor& x, const at::Tensor& gamma,
                                 const at::Tensor& beta, const BatchNormed& statistics, const Epilogue& epilogue,
                                 const at::Tensor& sum, const ReplicaSum* over) {
  if (over != nullptr) return backward_pass(of_result, x, gamma, beta, statistics, epilogue, sum, over);
  static const auto operation = find_operator("batch_norm_activation_backward", &backward_operator);
  const auto [of_x, of_gamma, of_beta, of_addend] = operation.call(
      of_result.y, if_defined(of_result.again), x, if_defined(gamma), if_defined(beta), if_defined(sum),
      statistics.mean, statistics.inverse_deviation, epilogue.low, epilogue.high, static_cast<int64_t>(epilogue.curve));
  return {of_x, of_gamma, of_beta, sum.defined() ? of_addend : at::Tensor()};
}

/// The node of the graph of gradients. It keeps nothing but the input, and the result where an addend was clamped.
class Node : public torch::autograd::Function<Node> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Optional& gamma,
                               const Optional& beta, const Optional& addend, double epsilon, const Epilogue& epilogue,
                               const std::shared_ptr<const ReplicaSum>& over) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor scale = or_none(gamma), shift = or_none(beta);
    const BatchNormed result = call_forward(x, scale, shift, or_none(addend), epsilon, epilogue, over.get());
    const bool clamped_sum = addend && epilogue != Epilogue{};
    context->save_for_backward(
        {x, scale, shift, result.mean, result.inverse_deviation, clamped_sum ? result.y : at::Tensor()});
    keep(context, epilogue);
    keep(context, over);
    context->saved_data["added"] = addend.has_value();
    context->mark_non_differentiable({result.mean, result.inverse_deviation});
    if (!clamped_sum) return {result.y, result.mean, result.inverse_deviation};
    context->set_materialize_grads(false);  // nothing may flow to one of the two
    return {result.y, result.mean, result.inverse_deviation, same_again(result.y)};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("batch_norm_activation");
    const at::NoGradGuard no_gradients;
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gamma = saved[1], &beta = saved[2], &sum = saved[5];
    GradientOfResult of_result{gradients[0], sum.defined() ? gradients[3] : at::Tensor()};
    if (!of_result.y.defined()) std::swap(of_result.y, of_result.again);
    if (!of_result.y.defined()) of_result.y = at::zeros_like(x);
    const BatchNormGradients result = call_backward(of_result, x, gamma, beta, {{}, saved[3], saved[4]},
                                                    kept_epilogue(context), sum, kept_sum(context).get());
    at::Tensor of_addend = result.addend;  // where nothing is clamped, all that flows to the sum
    if (!sum.defined() && context->saved_data["added"].toBool()) of_addend = gradients[0];
    return {result.x,
            gamma.defined() ? result.gamma : at::Tensor(),
            beta.defined() ? result.beta : at::Tensor(),
            of_addend,
            {},
            {},
            {}};
  }
};

ThreeTensors differentiable_operator(const at::Tensor& x, const Optional& gamma, const Optional& beta,
                                     const Optional& addend, double epsilon, double low, double high, int64_t curve) {
  const variable_list result =
      Node::apply(x, gamma, beta, addend, epsilon, epilogue_of(low, high, curve), std::shared_ptr<const ReplicaSum>());
  return {result[0], result[1], result[2]};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "batch_norm_activation(Tensor x, Tensor? gamma, Tensor? beta, Tensor? addend, float epsilon, float low, "
         "float high, int curve) -> (Tensor, Tensor, Tensor)",
         &forward_operator, &differentiable_operator);
  define(library,
         "batch_norm_activation_backward(Tensor gradient_y, Tensor? gradient_again, Tensor x, Tensor? gamma, Tensor? "
         "beta, Tensor? sum, "
         "Tensor mean, Tensor inverse_deviation, float low, float high, int curve) -> (Tensor, Tensor, Tensor, Tensor)",
         &backward_operator);
}

}  // namespace

bool fuses_batch_norm(const at::Tensor& x) {
  return has_kernels(x) && x.dim() == 4 && is_element(x.scalar_type()) &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast);
}

BatchNormed batch_norm_activation(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                                  const Epilogue& epilogue, const std::shared_ptr<const ReplicaSum>& over,
                                  const at::Tensor& addend) {
  if (over == nullptr && !addend.defined()) return call_forward(x, gamma, beta, addend, epsilon, epilogue, nullptr);
  const variable_list result =
      Node::apply(x, if_defined(gamma), if_defined(beta), if_defined(addend), epsilon, epilogue, over);
  return {result[0], result[1], result[2], result.size() > 3 ? result[3] : addend.defined() ? result[0] : at::Tensor()};
}

BatchNormGradients batch_norm_activation_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                  const at::Tensor& gamma, const at::Tensor& beta,
                                                  const BatchNormed& statistics, const Epilogue& epilogue,
                                                  const at::Tensor& sum, const at::Tensor& gradient_again) {
  return call_backward({gradient_y, gradient_again}, x, gamma, beta, statistics, epilogue, sum, nullptr);
}

}  // namespace osprey::kernels
