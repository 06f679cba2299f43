#include "nn/batch_norm_activation.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "osprey/kernels/batch_norm_activation.h"

namespace osprey::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Batch norm with a rectifier on top that works in place: one big tensor less to write, keep and read than in two
/// steps.
class RectifiedBatchNorm : public torch::autograd::Function<RectifiedBatchNorm> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gamma,
                               const at::Tensor& beta, double epsilon, bool capped) {
    auto [y, mean, inverse_deviation, reserve, implementation] =
        at::_batch_norm_impl_index(x, gamma, beta, /*running_mean=*/{}, /*running_var=*/{}, /*training=*/true,
                                   /*momentum=*/0, epsilon, /*cudnn=*/true);
    if (capped) {
      at::hardtanh_(y, 0, 6);
    } else {
      at::relu_(y);
    }
    context->save_for_backward({x, gamma, mean, inverse_deviation, reserve, y});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["capped"] = capped;
    context->saved_data["implementation"] = implementation;
    context->saved_data["has_beta"] = beta.defined();
    context->mark_non_differentiable({mean, inverse_deviation});
    return {y, mean, inverse_deviation};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gamma = saved[1], &y = saved[5];
    at::Tensor gradient = context->saved_data["capped"].toBool() ? at::hardtanh_backward(gradients[0], y, 0, 6)
                                                                 : at::threshold_backward(gradients[0], y, 0);
    gradient = gradient.contiguous(x.suggest_memory_format());
    auto [gradient_x, gradient_gamma, gradient_beta] = at::_batch_norm_impl_index_backward(
        context->saved_data["implementation"].toInt(), x, gradient, gamma, /*running_mean=*/{}, /*running_var=*/{},
        saved[2], saved[3], /*train=*/true, context->saved_data["epsilon"].toDouble(),
        {context->needs_input_grad(0), gamma.defined(), context->saved_data["has_beta"].toBool()}, saved[4]);
    return {gradient_x, gradient_gamma, gradient_beta, {}, {}};
  }
};

}  // namespace

std::optional<kernels::Epilogue> epilogue_of(Activation activation) {
  if (activation == Activation::kNone) return kernels::Epilogue{};
  if (activation == Activation::kRelu) return kernels::Epilogue{.low = 0};
  if (activation == Activation::kRelu6) return kernels::Epilogue{.low = 0, .high = 6};
  if (activation == Activation::kSwish) return kernels::Epilogue{.curve = kernels::Epilogue::Curve::kSwish};
  if (activation == Activation::kHardSwish) return kernels::Epilogue{.curve = kernels::Epilogue::Curve::kHardSwish};
  return std::nullopt;
}

std::optional<kernels::Epilogue> clamp_of(Activation activation) {
  const std::optional<kernels::Epilogue> epilogue = epilogue_of(activation);
  return epilogue && epilogue->curve == kernels::Epilogue::Curve::kClamp ? epilogue : std::nullopt;
}

kernels::BatchNormed batch_norm_activation(const at::Tensor& x, const at::Tensor& gamma_or_none,
                                           const at::Tensor& beta_or_none, double epsilon, Activation activation,
                                           const std::shared_ptr<const kernels::ReplicaSum>& over,
                                           const at::Tensor& addend) {
  const std::optional<kernels::Epilogue> epilogue = epilogue_of(activation);
  const bool fuses = over || (epilogue && kernels::fuses_batch_norm(x));
  if (addend.defined() && !(fuses && clamp_of(activation))) {  // the sum and its activation come after
    kernels::BatchNormed result =
        batch_norm_activation(x, gamma_or_none, beta_or_none, epsilon, Activation::kNone, over);
    result.y = result.again = activate_(result.y.add_(addend), activation);
    return result;
  }
  at::Tensor gamma = gamma_or_none, beta = beta_or_none;
  if (fuses) {
    const bool whole = epilogue.has_value();
    kernels::BatchNormed result = kernels::batch_norm_activation(
        x.contiguous(at::MemoryFormat::ChannelsLast), gamma, beta, epsilon, epilogue.value_or(kernels::Epilogue{}),
        over, addend.defined() ? addend.to(x.scalar_type()) : addend);
    if (!whole) result.y = activate(result.y, activation);
    return result;
  }
  if (x.scalar_type() != at::kFloat) {  // float parameters keep the statistics of a bfloat16 map in float
    const auto like = x.options().dtype(at::kFloat);
    if (!gamma.defined()) gamma = at::ones({x.size(1)}, like);
    if (!beta.defined()) beta = at::zeros({x.size(1)}, like);
  }
  if (activation == Activation::kRelu || activation == Activation::kRelu6) {
    const variable_list result = RectifiedBatchNorm::apply(x, gamma, beta, epsilon, activation == Activation::kRelu6);
    return {result[0], result[1], result[2], {}};
  }
  auto [y, mean, inverse_deviation, reserve, implementation] =
      at::_batch_norm_impl_index(x, gamma, beta, {}, {}, /*training=*/true, /*momentum=*/0, epsilon, /*cudnn=*/true);
  return {activate(y, activation), mean, inverse_deviation, {}};
}

}  // namespace osprey::nn
