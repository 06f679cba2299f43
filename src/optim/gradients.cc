#include "osprey/optim/gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace osprey::optim {
namespace {

std::vector<at::Tensor> gradients_of(const NamedTensors& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& entry : parameters)
    if (entry.second.grad().defined()) gradients.push_back(entry.second.grad());
  return gradients;
}

at::Tensor total_norm(const std::vector<at::Tensor>& norms) {
  return norms.empty() ? at::zeros({}, at::kFloat) : at::stack(norms).norm();
}

/// max_norm / max(norm, max_norm); NaN where the norm is not finite.
at::Tensor clip_factor(const at::Tensor& norm, double max_norm) {
  const at::Tensor factor = max_norm / norm.clamp_min(max_norm);
  return at::where(norm.isfinite(), factor, at::full_like(factor, NAN));
}

bool is_bias(const std::string& name) {
  const std::string leaf = name.substr(name.rfind('.') + 1);
  return leaf == "biases" || leaf == "bias";
}

}  // namespace

GradientPipeline::GradientPipeline(NamedTensors trained, const GradientOptions& options)
    : trained_(std::move(trained)), options_(options) {
  for (const auto& entry : trained_) is_bias_.push_back(is_bias(entry.first));
}

at::Tensor GradientPipeline::apply() {
  at::NoGradGuard no_grad;
  if (options_.bias_multiplier != 0) {
    std::vector<at::Tensor> biases;
    for (size_t i = 0; i < trained_.size(); ++i)
      if (is_bias_[i] && trained_[i].second.grad().defined()) biases.push_back(trained_[i].second.grad());
    if (!biases.empty()) at::_foreach_mul_(biases, options_.bias_multiplier);
  }
  const auto gradients = gradients_of(trained_);
  if (options_.clip_norm > 0)
    return options_.clip == GradientOptions::Clip::kGlobalNorm ? clip_by_global_norm(gradients, options_.clip_norm)
                                                               : clip_each_by_norm(gradients, options_.clip_norm);
  return gradients.empty() ? total_norm({}) : total_norm(at::_foreach_norm(gradients, 2));
}

void divide_gradients(const NamedTensors& parameters, const at::Tensor& normalizer) {
  at::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (!gradients.empty()) at::_foreach_div_(gradients, normalizer.detach().to(at::kFloat).clamp_min(1).reshape({}));
}

at::Tensor all_finite(const NamedTensors& parameters) {
  at::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (gradients.empty()) return at::ones({}, at::kBool);
  // The largest magnitude is NaN or infinite exactly where an element is, unlike a sum of squares, which can overflow.
  return at::stack(at::_foreach_norm(gradients, INFINITY)).isfinite().all();
}

at::Tensor clip_by_global_norm(const std::vector<at::Tensor>& gradients, double max_norm) {
  at::NoGradGuard no_grad;
  if (gradients.empty()) return total_norm({});
  const at::Tensor norm = total_norm(at::_foreach_norm(gradients, 2));
  at::_foreach_mul_(gradients, clip_factor(norm, max_norm));
  return norm;
}

at::Tensor clip_each_by_norm(const std::vector<at::Tensor>& gradients, double max_norm) {
  at::NoGradGuard no_grad;
  if (gradients.empty()) return total_norm({});
  const auto norms = at::_foreach_norm(gradients, 2);
  std::vector<at::Tensor> factors;
  for (const at::Tensor& norm : norms) factors.push_back(clip_factor(norm, max_norm));
  at::_foreach_mul_(gradients, factors);
  return total_norm(norms);
}

}  // namespace osprey::optim
