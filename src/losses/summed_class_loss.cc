#include "losses/summed_class_loss.h"

#include <ATen/ATen.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/autograd/custom_function.h>

namespace osprey::losses {
namespace {

/// A loss whose slope was worked out with it.
class WithSlope : public torch::autograd::Function<WithSlope> {
 public:
  using Kernel = c10::function_ref<kernels::LossAndSlope(bool with_slope)>;

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits, Kernel kernel) {
    kernels::LossAndSlope result = kernel(logits.requires_grad());
    context->save_for_backward({result.slope});
    return result.loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {context->get_saved_variables()[0] * gradients[0].unsqueeze(-1), {}};
  }
};

}  // namespace

at::Tensor summed_sigmoid_focal(const at::Tensor& logits, const ClassTargets& targets,
                                const kernels::SigmoidFocalOptions& options) {
  return WithSlope::apply(
      logits, [&](bool with_slope) { return kernels::sigmoid_focal(logits, targets, options, with_slope); });
}

at::Tensor summed_softmax(const at::Tensor& logits, const ClassTargets& targets, double logit_scale) {
  return WithSlope::apply(logits, [&](bool with_slope) {
    return kernels::softmax_cross_entropy(logits, targets, logit_scale, with_slope);
  });
}

}  // namespace osprey::losses
