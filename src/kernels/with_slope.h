#pragma once
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <tuple>

#include "kernels/no_second_derivative.h"

namespace osprey::kernels {

/// Losses that come with their derivative, so that nothing is left to do when gradients are wanted.
using LossAndSlopeTensors = std::tuple<at::Tensor, at::Tensor>;  ///< [B, A]; like the predictions, or empty

namespace detail {

class WithSlope : public torch::autograd::Function<WithSlope> {
 public:
  using Kernel = c10::function_ref<LossAndSlopeTensors(bool with_slope)>;

  /// returns  the loss, and the slope where it is `shown`
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& predictions, bool shown, Kernel kernel) {
    auto [loss, slope] = kernel(true);
    context->saved_data["type"] = static_cast<int64_t>(predictions.scalar_type());
    context->saved_data["shown"] = shown;
    context->save_for_backward({slope});
    if (!shown) return {loss};
    context->mark_non_differentiable({slope});
    context->set_materialize_grads(false);  // none of the slope's size, full of zeros
    return {loss, slope};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    refuse_second_derivative("a loss that comes with its slope");
    if (!gradients[0].defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    at::Tensor slope = context->get_saved_variables()[0];
    const at::Tensor factor = gradients[0].unsqueeze(-1).to(slope.scalar_type());
    const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    // The slope of the logits is among the largest tensors of a step. Where nobody will ask for it again, the gradient
    // takes its place.
    const bool needed = context->saved_data["shown"].toBool() || torch::autograd::get_current_graph_task_keep_graph();
    return {(needed ? slope * factor : slope.mul_(factor)).to(type), {}, {}};
  }
};

}  // namespace detail

/// Runs `kernel` with the slope where `predictions` want gradients or the caller wants it; the loss then has its node
/// in the graph of gradients.
inline LossAndSlopeTensors differentiable_loss(const at::Tensor& predictions, bool with_slope,
                                               detail::WithSlope::Kernel kernel) {
  const bool wanted = at::GradMode::is_enabled() && predictions.requires_grad();
  at::AutoDispatchBelowADInplaceOrView below;
  if (!wanted) return kernel(with_slope);
  const torch::autograd::variable_list result = detail::WithSlope::apply(predictions, with_slope, kernel);
  return {result[0], with_slope ? result[1] : at::empty({0}, predictions.options())};
}

}  // namespace osprey::kernels
