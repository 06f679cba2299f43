#include "osprey/optim/gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "optim/numbers.h"
#include "osprey/kernels/parameter_update.h"

namespace osprey::optim {
namespace {

std::vector<at::Tensor> gradients_of(const NamedTensors& parameters) {
  std::vector<at::Tensor> gradients;
  for (const auto& entry : parameters)
    if (entry.second.grad().defined()) gradients.push_back(entry.second.grad());
  return gradients;
}

/// The regularizer of each parameter, one of no weight where there is none.
std::vector<nn::Regularizer> regularizers_of(const NamedTensors& parameters,
                                             const std::vector<nn::RegularizedWeight>& regularized) {
  std::vector<nn::Regularizer> result;
  for (const auto& [name, parameter] : parameters) {
    const auto found =
        std::find_if(regularized.begin(), regularized.end(),
                     [&, &parameter = parameter](const auto& item) { return item.weight.is_same(parameter); });
    result.push_back(found != regularized.end() && parameter.requires_grad() &&
                             found->regularizer.kind != nn::Regularizer::Kind::kNone
                         ? found->regularizer
                         : nn::Regularizer());
  }
  return result;
}

/// Those whose penalty has no gradient to be added to.
std::vector<nn::RegularizedWeight> not_trained(const NamedTensors& parameters,
                                               const std::vector<nn::RegularizedWeight>& regularized) {
  std::vector<nn::RegularizedWeight> result;
  std::ranges::copy_if(regularized, std::back_inserter(result), [&](const nn::RegularizedWeight& item) {
    return std::ranges::none_of(parameters, [&](const auto& entry) {
      return entry.second.is_same(item.weight) && entry.second.requires_grad();
    });
  });
  return result;
}

/// What a mean is divided by: at least 1, times the scale; undefined where there is neither.
at::Tensor divisor_of(const at::Tensor& normalizer, const at::Tensor& scale) {
  if (!normalizer.defined()) return scale;
  const at::Tensor count = normalizer.detach().to(at::kFloat).clamp_min(1).reshape({});
  return scale.defined() ? count * scale : count;
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

GradientPipeline::GradientPipeline(NamedTensors trained, const GradientOptions& options,
                                   const std::vector<nn::RegularizedWeight>& regularized)
    : trained_(std::move(trained)),
      options_(options),
      adds_penalties_(!regularized.empty()),
      regularizers_(regularizers_of(trained_, regularized)),
      frozen_(not_trained(trained_, regularized)) {
  for (const auto& entry : trained_) is_bias_.push_back(is_bias(entry.first));
}

GradientNorms GradientPipeline::finish(const at::Tensor& normalizer, const at::Tensor& scale) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor> gradients, parameters;
  std::vector<double> penalties;  // l1 and l2 of each
  for (size_t i = 0; i < trained_.size(); ++i) {
    const at::Tensor& parameter = trained_[i].second;
    const auto [kind, weight] = regularizers_[i];
    if (!parameter.grad().defined()) {
      if (weight == 0) continue;
      parameter.mutable_grad() = at::zeros_like(parameter);
    }
    gradients.push_back(parameter.grad());
    parameters.push_back(parameter);
    penalties.push_back(kind == nn::Regularizer::Kind::kL1 ? weight : 0);
    penalties.push_back(kind == nn::Regularizer::Kind::kL2 ? weight : 0);
  }
  const auto count = static_cast<int64_t>(gradients.size());
  if (!penalties_.defined() || penalties_.numel() != 2 * count) {
    penalties_ = at::Tensor();
    write(penalties, gradients.empty() ? at::Tensor(at::zeros({})) : gradients[0], penalties_);
  }
  const auto [norms, of_trained] =
      kernels::finish_gradients(gradients, parameters, penalties_.view({count, 2}), divisor_of(normalizer, scale));
  const at::Tensor of_frozen = nn::regularization_loss(frozen_), penalty = of_trained.to(at::kFloat);
  return {norms, norms.isfinite().all(), of_frozen.defined() ? penalty + of_frozen : penalty};
}

at::Tensor GradientPipeline::apply(const GradientNorms& measured) {
  const at::NoGradGuard no_gradients;
  at::Tensor norms = measured.norms, factors;
  if (options_.bias_multiplier != 0) {
    if (!bias_factors_.defined() || bias_factors_.size(0) != norms.size(0)) {
      std::vector<double> of_biases;
      for (size_t i = 0; i < trained_.size(); ++i)
        if (trained_[i].second.grad().defined()) of_biases.push_back(is_bias_[i] ? options_.bias_multiplier : 1);
      bias_factors_ = at::Tensor();
      write(of_biases, norms, bias_factors_);
    }
    factors = bias_factors_.to(at::kDouble);
    norms = norms * factors.abs();
  }
  const at::Tensor total = norms.norm();
  if (options_.clip_norm > 0) {
    const at::Tensor clip = options_.clip == GradientOptions::Clip::kGlobalNorm
                                ? clip_factor(total, options_.clip_norm).expand_as(norms)
                                : clip_factor(norms, options_.clip_norm);
    factors = factors.defined() ? factors * clip : clip;
  }
  if (factors.defined()) kernels::scale_tensors(gradients_of(trained_), factors.to(at::kFloat).contiguous());
  return total.to(at::kFloat);
}

}  // namespace osprey::optim
