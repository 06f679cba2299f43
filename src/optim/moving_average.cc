#include "osprey/optim/moving_average.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "optim/numbers.h"
#include "osprey/kernels/parameter_update.h"

namespace osprey::optim {

MovingAverage::MovingAverage(NamedTensors parameters, double decay, Arithmetic arithmetic)
    : parameters_(std::move(parameters)), decay_(decay), arithmetic_(arithmetic) {
  TORCH_CHECK(decay >= 0 && decay <= 1, "the decay of a moving average must be in 0..1, got ", decay);
  for (const auto& entry : parameters_) averages_.push_back(at::empty_like(entry.second.detach()));
  reset();
}

void MovingAverage::reset() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < averages_.size(); ++i) {
    if (arithmetic_ == Arithmetic::kTf1)
      averages_[i].copy_(parameters_[i].second);
    else
      averages_[i].zero_();
  }
}

void MovingAverage::prepare(int64_t step) {
  if (averages_.empty()) return;
  const double done = static_cast<double>(step + 1);
  const double decay = arithmetic_ == Arithmetic::kTf1 ? decay_ : std::min(decay_, (1 + done) / (10 + done));
  write({1 - decay}, averages_[0], rate_);
}

void MovingAverage::apply(const at::Tensor& proceed) {
  if (averages_.empty()) return;
  kernels::update_parameters(kernels::UpdateRule::kAverage, {averages_, tensors_of(parameters_)}, rate_, proceed);
}

void MovingAverage::swap() {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const at::Tensor& parameter = parameters_[i].second;
    const at::Tensor held = parameter.detach().clone();
    parameter.copy_(averages_[i]);
    averages_[i].copy_(held);
  }
}

NamedTensors MovingAverage::state() const {
  NamedTensors state;
  for (size_t i = 0; i < averages_.size(); ++i)
    state.emplace_back(parameters_[i].first + ".ExponentialMovingAverage", averages_[i]);
  return state;
}

}  // namespace osprey::optim
