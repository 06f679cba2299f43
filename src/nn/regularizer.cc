#include "osprey/nn/regularizer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "osprey/kernels/parameter_update.h"

namespace osprey::nn {
namespace {

/// The penalty of many weights at once, with its gradient in closed form: weight * w for l2, weight * sign(w) for l1.
class Penalty : public torch::autograd::Function<Penalty> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList weights, bool squared,
                            double factor) {
    context->saved_data["squared"] = squared;
    context->saved_data["factor"] = factor;
    context->save_for_backward(weights.vec());
    const at::Tensor sum =
        squared ? kernels::tensor_norms(weights.vec()).square().sum() : at::stack(at::_foreach_norm(weights, 1)).sum();
    return (sum * (squared ? factor / 2 : factor)).to(at::kFloat);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    torch::autograd::variable_list weights = context->get_saved_variables();
    const at::Tensor scale = gradients[0] * context->saved_data["factor"].toDouble();
    if (!context->saved_data["squared"].toBool()) weights = at::_foreach_sign(weights);
    torch::autograd::variable_list result = at::_foreach_mul(weights, scale);
    result.resize(weights.size() + 2);  // no gradients for the two settings
    return result;
  }
};

}  // namespace

at::Tensor regularization_loss(const std::vector<RegularizedWeight>& weights) {
  std::vector<std::pair<Regularizer, std::vector<at::Tensor>>> groups;
  for (const RegularizedWeight& item : weights) {
    if (item.regularizer.kind == Regularizer::Kind::kNone || item.regularizer.weight == 0) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == item.regularizer; });
    if (group == groups.end()) group = groups.insert(groups.end(), {item.regularizer, {}});
    group->second.push_back(item.weight);
  }
  at::Tensor total;
  for (const auto& [regularizer, members] : groups) {
    const at::Tensor loss =
        Penalty::apply(at::TensorList(members), regularizer.kind == Regularizer::Kind::kL2, regularizer.weight);
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

}  // namespace osprey::nn
