#include "losses/summed_sigmoid_focal.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace osprey::losses {
namespace {

class SummedSigmoidFocal : public torch::autograd::Function<SummedSigmoidFocal> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets, const at::Tensor& weights,
                            const kernels::SigmoidFocalOptions& options) {
    kernels::LossAndSlope result = kernels::sigmoid_focal(logits, targets, weights, options, logits.requires_grad());
    context->save_for_backward({result.slope});
    return result.loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {context->get_saved_variables()[0] * gradients[0].unsqueeze(-1), {}, {}, {}};
  }
};

}  // namespace

at::Tensor summed_sigmoid_focal(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                                const kernels::SigmoidFocalOptions& options) {
  return SummedSigmoidFocal::apply(logits, targets, weights, options);
}

}  // namespace osprey::losses
