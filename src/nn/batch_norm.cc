#include "osprey/nn/batch_norm.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <utility>

#include "nn/batch_norm_activation.h"
#include "nn/batch_statistics.h"
#include "osprey/kernels/parameter_update.h"

namespace osprey::nn {

BatchNorm::BatchNorm(int64_t depth, const BatchNormOptions& options) : options_(options) {
  if (options.scale) gamma_ = add_variable("gamma", {depth}, Initializer::constant(options.gamma_init));
  if (options.center) beta_ = add_variable("beta", {depth}, Initializer::constant(0));
  moving_mean_ = add_statistic("moving_mean", {depth}, 0);
  moving_variance_ = add_statistic("moving_variance", {depth}, 1);
}

at::Tensor BatchNorm::forward(const at::Tensor& x, Activation activation) {
  return forward_plus(x, /*addend=*/{}, activation).map;
}

ForkedMap BatchNorm::forward_plus(const at::Tensor& x, const at::Tensor& addend, Activation activation) {
  if (x.is_meta()) return {x, x};  // not all the operations below have kernels for shapes
  if (!uses_batch_statistics()) {
    at::Tensor y = at::batch_norm(x, gamma_, beta_, moving_mean_, moving_variance_, /*training=*/false,
                                  /*momentum=*/0, options_.epsilon, /*cudnn_enabled=*/true);
    y = addend.defined() ? activate_(y.add_(addend), activation) : activate(y, activation);
    return {y, y};
  }
  const kernels::BatchNormed result =
      batch_norm_activation(x, gamma_, beta_, options_.epsilon, activation, over_, addend);
  keep_aside(result.mean, result.inverse_deviation, (over_ ? over_->replicas : 1) * x.numel() / x.size(1));
  return {result.y, result.again};
}

bool BatchNorm::can_be_left(Activation activation) const {
  return uses_batch_statistics() && !over_ && epilogue_of(activation).has_value();
}

kernels::PendingMap BatchNorm::leave(const kernels::MapWithStatistics& map, Activation activation) {
  keep_aside(map.mean, map.inverse_deviation, map.y.numel() / map.y.size(1));
  return {map.y, map.mean, map.inverse_deviation, gamma_, beta_, epilogue_of(activation).value()};
}

kernels::ActivatedConvolution BatchNorm::forward(const kernels::PendingMap& input, const at::Tensor& weights,
                                                 const kernels::SlidingWindow& window, const at::Tensor& addend,
                                                 Activation activation, const kernels::NextConvolution& next) {
  kernels::ActivatedConvolution result = kernels::activated_convolution(
      input, weights, window, {gamma_, beta_, options_.epsilon, clamp_of(activation).value()}, addend, next);
  keep_aside(result.mean, result.inverse_deviation, result.y.numel() / result.y.size(1));
  return result;
}

BatchNorm::Folded BatchNorm::fold() const {
  const at::Tensor inverse_deviation = at::rsqrt(moving_variance_ + options_.epsilon);
  const at::Tensor factor = gamma_.defined() ? gamma_ * inverse_deviation : inverse_deviation;
  const at::Tensor shift = -moving_mean_ * factor;
  return {factor, {}, {}, beta_.defined() ? beta_ + shift : shift};
}

BatchNorm::Folded BatchNorm::fold(const at::Tensor& mean, const at::Tensor& inverse_deviation) const {
  const at::Tensor factor = fold().factor;
  return {factor, mean * factor, at::sqrt(moving_variance_ + options_.epsilon) * inverse_deviation, beta_};
}

BatchNorm::Folded BatchNorm::fold(const at::Tensor& y) {
  const BatchStatistics batch = batch_statistics(y, options_.epsilon, over_);
  keep_aside(batch.mean, batch.inverse_deviation, (over_ ? over_->replicas : 1) * y.numel() / y.size(1));
  return fold(batch.mean, batch.inverse_deviation);
}

BatchNorm::Folded BatchNorm::fold(const kernels::MapWithStatistics& map) {
  keep_aside(map.mean, map.inverse_deviation, map.y.numel() / map.y.size(1));
  return fold(map.mean, map.inverse_deviation);
}

void BatchNorm::keep_aside(const at::Tensor& mean, const at::Tensor& inverse_deviation, int64_t values_per_channel) {
  const auto count = static_cast<double>(values_per_channel);
  const double unbiased = options_.keep_biased ? 1 : count > 1 ? count / (count - 1) : 0;
  passes_.push_back({mean.detach(), inverse_deviation.detach(), unbiased});
}

void BatchNorm::commit(const std::vector<BatchNorm*>& layers, const at::Tensor& proceed) {
  const at::NoGradGuard no_gradients;
  std::vector<std::pair<BatchNorm*, std::vector<Pass>>> passes_of;
  std::vector<at::Tensor> deviations;
  std::vector<at::Scalar> epsilons, factors;
  for (BatchNorm* layer : layers) {
    passes_of.emplace_back(layer, std::exchange(layer->passes_, {}));
    for (const Pass& pass : passes_of.back().second) {
      deviations.push_back(pass.inverse_deviation);
      epsilons.emplace_back(layer->options_.epsilon);
      factors.emplace_back(pass.unbiased);
    }
  }
  if (deviations.empty()) return;
  const std::vector<at::Tensor> variances = at::_foreach_pow(deviations, -2);
  at::_foreach_sub_(variances, epsilons);
  at::_foreach_clamp_min_(variances, 0);
  at::_foreach_mul_(variances, factors);

  struct Averages {
    at::Tensor rate;
    std::vector<at::Tensor> moving, of_batch;
  };
  std::map<double, Averages> by_decay;
  auto variance = variances.begin();
  for (const auto& [layer, passes] : passes_of) {
    if (passes.empty()) continue;
    at::Tensor mean, spread;  // sums over the passes
    for (const Pass& pass : passes) {
      mean = mean.defined() ? mean + pass.mean : pass.mean;
      spread = spread.defined() ? spread + *variance : *variance;
      ++variance;
    }
    if (const auto count = static_cast<int64_t>(passes.size()); count > 1) {
      mean = mean / count;
      spread = spread / count;
    }
    Averages& averages = by_decay[layer->options_.decay];
    if (!averages.rate.defined()) averages.rate = layer->rate();
    averages.moving.insert(averages.moving.end(), {layer->moving_mean_, layer->moving_variance_});
    averages.of_batch.insert(averages.of_batch.end(), {mean, spread});
  }
  for (const auto& [decay, averages] : by_decay)
    kernels::update_parameters(kernels::UpdateRule::kAverage, {averages.moving, averages.of_batch}, averages.rate,
                               proceed);
}

/// Made once: a recorded step reads it again and again.
at::Tensor BatchNorm::rate() {
  if (!rate_.defined() || rate_.device() != moving_mean_.device())
    rate_ = at::full({1}, 1 - options_.decay, moving_mean_.options());
  return rate_;
}

}  // namespace osprey::nn
