#include "osprey/optim/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace osprey::optim {

void Optimizer::update(int64_t step) {
  at::NoGradGuard no_grad;
  Update update;
  update.learning_rate = learning_rate_->at(step);
  update.step = step;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    if (!parameter.grad().defined()) continue;
    update.indices.push_back(static_cast<int64_t>(i));
    update.values.push_back(parameter);
    update.gradients.push_back(parameter.grad());
  }
  if (!update.values.empty()) apply(update);
}

}  // namespace osprey::optim
