#include <torch/csrc/autograd/custom_function.h>

#include "losses/formulas.h"

namespace osprey::losses {
namespace {

class SoftmaxCrossEntropy : public torch::autograd::Function<SoftmaxCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    context->save_for_backward({logits, targets});
    return -(targets * at::log_softmax(logits, 2)).sum(2);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {(at::softmax(saved[0], 2) - saved[1]) * gradients[0].unsqueeze(2), at::Tensor()};
  }
};

}  // namespace

at::Tensor softmax_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return SoftmaxCrossEntropy::apply(logits, targets);
}

}  // namespace osprey::losses
