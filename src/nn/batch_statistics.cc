#include "nn/batch_statistics.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/kept_arguments.h"
#include "kernels/no_second_derivative.h"
#include "nn/batch_norm_activation.h"

namespace osprey::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class StatisticsOfMap : public torch::autograd::Function<StatisticsOfMap> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, double epsilon,
                               const std::shared_ptr<const kernels::ReplicaSum>& over) {
    const kernels::BatchNormed normed = batch_norm_activation(x, {}, {}, epsilon, Activation::kNone, over);
    context->save_for_backward({normed.y, normed.inverse_deviation});
    kernels::keep(context, over);
    return {normed.mean, normed.inverse_deviation};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    kernels::refuse_second_derivative("statistics of a batch");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &normed = saved[0], &inverse_deviation = saved[1];
    const auto over = kernels::kept_sum(context);
    at::Tensor of_both = at::stack({gradients[0], gradients[1]}).to(at::kDouble);
    if (over) over->sum(of_both);
    const auto count = static_cast<double>((over ? over->replicas : 1) * normed.numel() / normed.size(1));
    of_both = (of_both / count).to(at::kFloat);
    const auto of_channels = [](const at::Tensor& values) { return values.view({1, -1, 1, 1}); };
    const at::Tensor slope = -of_both[1] * inverse_deviation.square();
    return {at::addcmul(of_channels(of_both[0]), normed.to(at::kFloat), of_channels(slope)).to(normed.scalar_type()),
            {},
            {}};
  }
};

}  // namespace

BatchStatistics batch_statistics(const at::Tensor& x, double epsilon,
                                 const std::shared_ptr<const kernels::ReplicaSum>& over) {
  const variable_list result = StatisticsOfMap::apply(x, epsilon, over);
  return {result[0], result[1]};
}

}  // namespace osprey::nn
