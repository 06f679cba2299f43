#include "osprey/nn/regularizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "osprey/kernels/parameter_update.h"

namespace osprey::nn {
namespace {

struct Group {
  Regularizer regularizer;
  std::vector<at::Tensor> weights;
};

/// Weights with the same penalty together, for which a few operations do.
std::vector<Group> groups_of(const std::vector<RegularizedWeight>& weights) {
  std::vector<Group> groups;
  for (const RegularizedWeight& item : weights) {
    if (item.regularizer.kind == Regularizer::Kind::kNone || item.regularizer.weight == 0) continue;
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group& other) { return other.regularizer == item.regularizer; });
    if (group == groups.end()) group = groups.insert(groups.end(), {item.regularizer, {}});
    group->weights.push_back(item.weight);
  }
  return groups;
}

}  // namespace

at::Tensor regularization_loss(const std::vector<RegularizedWeight>& weights) {
  const at::NoGradGuard no_gradients;
  at::Tensor total;
  for (const auto& [regularizer, members] : groups_of(weights)) {
    const bool squared = regularizer.kind == Regularizer::Kind::kL2;
    const at::Tensor sum =
        squared ? kernels::tensor_norms(members).square().sum() : at::stack(at::_foreach_norm(members, 1)).sum();
    const at::Tensor loss = (sum * (squared ? regularizer.weight / 2 : regularizer.weight)).to(at::kFloat);
    total = total.defined() ? total + loss : loss;
  }
  return total;
}

}  // namespace osprey::nn
