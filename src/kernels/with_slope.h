#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/autograd/custom_function.h>

#include <tuple>

namespace osprey::kernels {

/// Losses that come with their derivative, so that nothing is left to do when gradients are wanted.
using LossAndSlopeTensors = std::tuple<at::Tensor, at::Tensor>;  ///< [B, A]; like the predictions, or empty

namespace detail {

class WithSlope : public torch::autograd::Function<WithSlope> {
 public:
  using Kernel = c10::function_ref<LossAndSlopeTensors(bool with_slope)>;

  /// returns  the loss, and the slope where it is `shown`
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& predictions, bool shown, Kernel kernel);
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients);
};

}  // namespace detail

/// Runs `kernel` with the slope where `predictions` want gradients or the caller wants it; the loss then has its node
/// in the graph of gradients.
LossAndSlopeTensors differentiable_loss(const at::Tensor& predictions, bool with_slope,
                                        detail::WithSlope::Kernel kernel);

}  // namespace osprey::kernels
