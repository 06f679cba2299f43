#include "osprey/nn/batch_norm.h"

#include <ATen/core/grad_mode.h>

#include "nn/batch_norm_activation.h"
#include "osprey/kernels/parameter_update.h"

namespace osprey::nn {

BatchNorm::BatchNorm(int64_t depth, const BatchNormOptions& options) : options_(options) {
  if (options.scale) gamma_ = add_variable("gamma", {depth}, Initializer::constant(options.gamma_init));
  if (options.center) beta_ = add_variable("beta", {depth}, Initializer::constant(0));
  moving_mean_ = add_statistic("moving_mean", {depth}, 0);
  moving_variance_ = add_statistic("moving_variance", {depth}, 1);
}

at::Tensor BatchNorm::forward(const at::Tensor& x, Activation activation) {
  if (x.is_meta()) return x;  // not all the operations below have kernels for shapes
  if (!uses_batch_statistics()) {
    const at::Tensor y = at::batch_norm(x, gamma_, beta_, moving_mean_, moving_variance_, /*training=*/false,
                                        /*momentum=*/0, options_.epsilon, /*cudnn_enabled=*/true);
    return activate(y, activation);
  }
  const NormalizedActivation result = batch_norm_activation(x, gamma_, beta_, options_.epsilon, activation, over_);
  keep_aside(result.mean, result.inverse_deviation, (over_ ? over_->replicas : 1) * x.numel() / x.size(1));
  return result.y;
}

bool BatchNorm::can_be_left(Activation activation) const {
  return uses_batch_statistics() && !over_ && epilogue_of(activation).has_value();
}

kernels::PendingMap BatchNorm::leave(const kernels::MapWithStatistics& map, Activation activation) {
  keep_aside(map.mean, map.inverse_deviation, map.y.numel() / map.y.size(1));
  return {map.y, map.mean, map.inverse_deviation, gamma_, beta_, epilogue_of(activation).value()};
}

void BatchNorm::keep_aside(const at::Tensor& mean, const at::Tensor& inverse_deviation, int64_t values_per_channel) {
  at::NoGradGuard no_grad;
  const double unbiased = values_per_channel > 1 ? double(values_per_channel) / double(values_per_channel - 1) : 0.0;
  at::Tensor variance = inverse_deviation.pow(-2).sub_(options_.epsilon).clamp_min_(0).mul_(unbiased);
  if (pending_count_ == 0) {
    pending_mean_ = mean.detach();
    pending_variance_ = variance;
  } else {
    pending_mean_ = pending_mean_ + mean.detach();
    pending_variance_ = pending_variance_ + variance;
  }
  ++pending_count_;
}

void BatchNorm::commit(const at::Tensor& proceed) {
  if (pending_count_ == 0) return;
  at::NoGradGuard no_grad;
  if (!rate_.defined() || rate_.device() != moving_mean_.device())
    rate_ = at::full({1}, 1 - options_.decay, moving_mean_.options());
  const auto mean_of = [&](const at::Tensor& sum) { return pending_count_ == 1 ? sum : sum.div(pending_count_); };
  kernels::update_parameters(kernels::UpdateRule::kAverage,
                             {{moving_mean_, moving_variance_}, {mean_of(pending_mean_), mean_of(pending_variance_)}},
                             rate_, proceed);
  discard();
}

void BatchNorm::discard() {
  pending_mean_ = at::Tensor();
  pending_variance_ = at::Tensor();
  pending_count_ = 0;
}

}  // namespace osprey::nn
