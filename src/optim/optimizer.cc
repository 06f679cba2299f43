#include "osprey/optim/optimizer.h"

#include <ATen/ATen.h>

#include "optim/numbers.h"

namespace osprey::optim {

Optimizer::Optimizer(NamedTensors parameters, std::unique_ptr<LearningRate> learning_rate, kernels::UpdateRule rule,
                     std::vector<Slot> slots)
    : parameters_(std::move(parameters)),
      learning_rate_(std::move(learning_rate)),
      rule_(rule),
      slots_(std::move(slots)) {
  for (const Slot& slot : slots_) {
    kept_.emplace_back();
    for (const auto& [name, parameter] : parameters_)
      kept_.back().push_back(at::full_like(parameter.detach(), slot.start));
  }
}

void Optimizer::prepare(int64_t step) {
  if (!parameters_.empty()) write(numbers(learning_rate_at(step), step), parameters_[0].second, numbers_);
}

void Optimizer::apply(const at::Tensor& proceed) {
  std::vector<at::Tensor> values, gradients;
  std::vector<std::vector<at::Tensor>> kept(kept_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if (!parameter.grad().defined()) continue;
    values.push_back(parameter);
    gradients.push_back(parameter.grad());
    for (size_t s = 0; s < kept_.size(); ++s) kept[s].push_back(kept_[s][i]);
  }
  if (values.empty()) return;
  share_update(numbers_, proceed);
  kernels::update_parameters(rule_, {values, gradients, std::move(kept)}, numbers_, proceed);
}

NamedTensors Optimizer::state() const {
  NamedTensors state;
  for (size_t s = 0; s < slots_.size(); ++s)
    for (size_t i = 0; i < parameters_.size(); ++i)
      state.emplace_back(parameters_[i].first + "." + slots_[s].name, kept_[s][i]);
  return state;
}

}  // namespace osprey::optim
