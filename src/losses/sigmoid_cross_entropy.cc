#include <torch/csrc/autograd/custom_function.h>

#include "losses/formulas.h"

namespace osprey::losses {
namespace {

/// max(x, 0) - x z + log(1 + exp(-|x|)): no overflow, and no cancellation where the loss is small. Differentiating that
/// form automatically would give a wrong slope at x = 0; the true one is sigmoid(x) - z.
class SigmoidCrossEntropy : public torch::autograd::Function<SigmoidCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    context->save_for_backward({logits, targets});
    return logits.clamp_min(0).sub_(logits * targets).add_(logits.abs().neg_().exp_().log1p_());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& logits = saved[0];
    const at::Tensor& targets = saved[1];
    at::Tensor target_gradient;
    if (context->needs_input_grad(1)) target_gradient = -gradients[0] * logits;
    return {at::sigmoid(logits).sub_(targets).mul_(gradients[0]), target_gradient};
  }
};

}  // namespace

at::Tensor sigmoid_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return SigmoidCrossEntropy::apply(logits, targets);
}

}  // namespace osprey::losses
