#include "osprey/kernels/squeeze_excite.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/device/launch.h"
#include "kernels/kept_arguments.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/pending_steps.h"
#include "kernels/same_again.h"
#include "kernels/squeeze_excite_steps.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

void check_of_pictures(const at::Tensor& x, const at::Tensor& values, const char* name) {
  TORCH_CHECK(values.scalar_type() == at::kFloat && values.sizes() == at::IntArrayRef({x.size(0), x.size(1)}),
              "expected ", name, ", a float for each channel of each picture of ", x.sizes(), ", got ",
              values.toString(), " ", values.sizes());
}

at::Tensor squeeze_operator(const at::Tensor& x, const Optional& mean, const Optional& inverse_deviation,
                            const Optional& gamma, const Optional& beta, double low, double high, int64_t curve) {
  const PendingMap map = pending_map(x, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (x.is_meta()) return at::empty({x.size(0), x.size(1)}, x.options().dtype(at::kFloat));
  const ReadMap read(map);
  return value_means(read.x, *read.affine);
}

FiveTensors squeeze_backward_operator(const Optional& of_values, const Optional& of_means, const at::Tensor& x,
                                      const Optional& mean, const Optional& inverse_deviation, const Optional& gamma,
                                      const Optional& beta, double low, double high, int64_t curve) {
  if (of_values)
    TORCH_CHECK(of_values->sizes() == x.sizes(), "expected a gradient of size ", x.sizes(), ", got ",
                of_values->sizes());
  if (of_means) check_of_pictures(x, *of_means, "gradients of means");
  const PendingMap map = pending_map(x, mean, inverse_deviation, gamma, beta, low, high, curve);
  const auto channels = [&] { return at::empty({map.mean.defined() ? x.size(1) : 0}, x.options().dtype(at::kFloat)); };
  if (x.is_meta()) return {empty_map(x.sizes(), x), channels(), channels(), channels(), channels()};
  const ReadMap read(map);
  const auto [moments, of_x] = take_back_means(
      of_values ? channels_last(of_values->to(x.scalar_type())) : at::zeros_like(read.x),
      of_means ? *of_means : at::zeros({x.size(0), x.size(1)}, x.options().dtype(at::kFloat)), read.x, *read.affine);
  if (!map.mean.defined()) return {of_x, channels(), channels(), channels(), channels()};
  const ChannelGradients of = gradients_of_channels(read.x, moments, *read.affine, map.inverse_deviation);
  return {of_x, of.mean, of.inverse_deviation, of.gamma, of.beta};
}

at::Tensor excite_operator(const at::Tensor& x, const Optional& mean, const Optional& inverse_deviation,
                           const Optional& gamma, const Optional& beta, double low, double high, int64_t curve,
                           const at::Tensor& gates) {
  check_of_pictures(x, gates, "gates");
  const PendingMap map = pending_map(x, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (x.is_meta()) return empty_map(x.sizes(), x);
  const ReadMap read(map);
  return gated(read.x, *read.affine, device::aligned(gates));
}

TwoTensors excite_backward_operator(const at::Tensor& gradient, const at::Tensor& x, const Optional& mean,
                                    const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                                    double low, double high, int64_t curve, const at::Tensor& gates) {
  TORCH_CHECK(gradient.sizes() == x.sizes(), "expected a gradient of size ", x.sizes(), ", got ", gradient.sizes());
  check_of_pictures(x, gates, "gates");
  const PendingMap map = pending_map(x, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (x.is_meta()) return {empty_map(x.sizes(), x), at::empty(gates.sizes(), gates.options())};
  const ReadMap read(map);
  return take_back_gates(channels_last(gradient.to(x.scalar_type())), read.x, *read.affine, device::aligned(gates));
}

/// The map again, whose gradient is taken for one of its values, and the means.
class SqueezeNode : public torch::autograd::Function<SqueezeNode> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Optional& mean,
                               const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                               const Epilogue& epilogue) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto operation = find_operator("squeeze", &squeeze_operator);
    const at::Tensor means = operation.call(x, mean, inverse_deviation, gamma, beta, epilogue.low, epilogue.high,
                                            static_cast<int64_t>(epilogue.curve));
    context->save_for_backward({x, or_none(mean), or_none(inverse_deviation), or_none(gamma), or_none(beta)});
    keep(context, epilogue);
    context->set_materialize_grads(false);
    return {same_again(x), means};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("squeeze");
    const at::NoGradGuard no_gradients;
    const variable_list saved = context->get_saved_variables();
    const Epilogue epilogue = kept_epilogue(context);
    static const auto operation = find_operator("squeeze_backward", &squeeze_backward_operator);
    const auto [x, mean, inverse_deviation, gamma, beta] = operation.call(
        if_defined(gradients[0]), if_defined(gradients[1]), saved[0], if_defined(saved[1]), if_defined(saved[2]),
        if_defined(saved[3]), if_defined(saved[4]), epilogue.low, epilogue.high, static_cast<int64_t>(epilogue.curve));
    const auto of = [](const at::Tensor& part, const at::Tensor& gradient) {
      return part.defined() ? gradient : at::Tensor();
    };
    return {x, of(saved[1], mean), of(saved[2], inverse_deviation), of(saved[3], gamma), of(saved[4], beta), {}};
  }
};

/// Of a map that `SqueezeNode` gave.
class ExciteNode : public torch::autograd::Function<ExciteNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const PendingMap& map,
                            const at::Tensor& gates) {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto operation = find_operator("excite", &excite_operator);
    context->save_for_backward({x, map.mean, map.inverse_deviation, map.gamma, map.beta, gates});
    keep(context, map.epilogue);
    return operation.call(x, if_defined(map.mean), if_defined(map.inverse_deviation), if_defined(map.gamma),
                          if_defined(map.beta), map.epilogue.low, map.epilogue.high,
                          static_cast<int64_t>(map.epilogue.curve), gates);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("excite");
    const at::NoGradGuard no_gradients;
    const variable_list saved = context->get_saved_variables();
    const Epilogue epilogue = kept_epilogue(context);
    static const auto operation = find_operator("excite_backward", &excite_backward_operator);
    const auto [of_values, of_gates] = operation.call(
        gradients[0], saved[0], if_defined(saved[1]), if_defined(saved[2]), if_defined(saved[3]), if_defined(saved[4]),
        epilogue.low, epilogue.high, static_cast<int64_t>(epilogue.curve), saved[5]);
    return {of_values, {}, of_gates};
  }
};

at::Tensor differentiable_squeeze(const at::Tensor& x, const Optional& mean, const Optional& inverse_deviation,
                                  const Optional& gamma, const Optional& beta, double low, double high, int64_t curve) {
  const PendingMap map = pending_map(x, mean, inverse_deviation, gamma, beta, low, high, curve);
  return squeeze(map).means;
}

at::Tensor differentiable_excite(const at::Tensor& x, const Optional& mean, const Optional& inverse_deviation,
                                 const Optional& gamma, const Optional& beta, double low, double high, int64_t curve,
                                 const at::Tensor& gates) {
  const PendingMap map = pending_map(x, mean, inverse_deviation, gamma, beta, low, high, curve);
  return excite(squeeze(map).map, gates);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "squeeze(Tensor x, Tensor? mean, Tensor? inverse_deviation, Tensor? gamma, Tensor? beta, float low, float "
         "high, int curve) -> Tensor",
         &squeeze_operator, &differentiable_squeeze);
  define(library,
         "squeeze_backward(Tensor? of_values, Tensor? of_means, Tensor x, Tensor? mean, Tensor? inverse_deviation, "
         "Tensor? gamma, Tensor? beta, float low, float high, int curve) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
         &squeeze_backward_operator);
  define(library,
         "excite(Tensor x, Tensor? mean, Tensor? inverse_deviation, Tensor? gamma, Tensor? beta, float low, float "
         "high, int curve, Tensor gates) -> Tensor",
         &excite_operator, &differentiable_excite);
  define(library,
         "excite_backward(Tensor gradient, Tensor x, Tensor? mean, Tensor? inverse_deviation, Tensor? gamma, Tensor? "
         "beta, float low, float high, int curve, Tensor gates) -> (Tensor, Tensor)",
         &excite_backward_operator);
}

}  // namespace

Squeezed squeeze(const PendingMap& input) {
  const variable_list made = SqueezeNode::apply(input.x, if_defined(input.mean), if_defined(input.inverse_deviation),
                                                if_defined(input.gamma), if_defined(input.beta), input.epilogue);
  const auto held = [](const at::Tensor& part) { return part.defined() ? part.detach() : part; };
  return {
      {made[0], held(input.mean), held(input.inverse_deviation), held(input.gamma), held(input.beta), input.epilogue},
      made[1]};
}

at::Tensor excite(const PendingMap& map, const at::Tensor& gates) { return ExciteNode::apply(map.x, map, gates); }

}  // namespace osprey::kernels
