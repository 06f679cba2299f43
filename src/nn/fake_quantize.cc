#include "osprey/nn/fake_quantize.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace osprey::nn {
namespace {

constexpr double kDecay = 0.999;  // of the moving averages
constexpr int64_t kLast = 255;    // of the numbers
constexpr float kLeast = 1e-30f;  // distance of two numbers: all values may be zero

/// [2]: not above and not below zero, which is always one of the numbers
at::Tensor range_of(const at::Tensor& x) {
  const auto [least, largest] = at::aminmax(x);
  return at::stack({least.clamp_max(0), largest.clamp_min(0)});
}

/// range   [2]
/// first   of the numbers
/// rounds  int64 scalar: 0, values stay as they are
at::Tensor rounded(const at::Tensor& x, const at::Tensor& range, int64_t first, const at::Tensor& rounds) {
  const at::Tensor scale = ((range[1] - range[0]) / static_cast<double>(kLast - first)).clamp_min(kLeast);
  const at::Tensor zero = (range[0].neg() / scale).round().add(first).clamp(first, kLast);
  at::Tensor inside = x;
  if (x.requires_grad() && at::GradMode::is_enabled()) {  // libtorch lets gradients pass from half a step further out
    const double infinity = std::numeric_limits<double>::infinity();
    inside = at::clamp(x, at::where(rounds > 0, (first - zero) * scale, -infinity),
                       at::where(rounds > 0, (kLast - zero) * scale, infinity));
  }
  return std::get<0>(at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(inside, scale, zero.to(at::kInt),
                                                                                   rounds, first, kLast));
}

/// The same where values are rounded and no gradients flow.
at::Tensor rounded_by_numbers(const at::Tensor& x, float low, float high, int64_t first) {
  const float scale = std::max((high - low) / static_cast<float>(kLast - first), kLeast);
  const int64_t zero = std::clamp<int64_t>(first + std::lround(-low / scale), first, kLast);
  return at::fake_quantize_per_tensor_affine(x, scale, zero, first, kLast);
}

}  // namespace

FakeQuantize::FakeQuantize(const FakeQuantizeOptions& options)
    : options_(options),
      first_(options.narrow ? 1 : 0),
      min_(add_statistic("min", {}, options.initial_min)),
      max_(add_statistic("max", {}, options.initial_max)),
      local_step_(register_buffer("local_step", at::zeros({}, min_.options().dtype(at::kLong)))) {}

bool FakeQuantize::is_waiting() const {
  return is_training() && local_step_.is_cpu() && local_step_.item<int64_t>() + 1 < options_.delay;
}

at::Tensor FakeQuantize::forward(const at::Tensor& x) {
  if (x.is_meta()) return x;
  const at::Tensor values = x.to(at::kFloat);
  at::Tensor range;
  if (is_training()) {
    passes_.push_back(range_of(values.detach()));
    if (is_waiting()) return x;
    range = with(passes_.back());
  } else {
    range = at::stack({min_, max_});
  }
  const bool rounds_at_once = !is_training() || options_.delay <= 1;
  const at::Tensor rounds =
      rounds_at_once ? at::ones_like(local_step_) : (local_step_ + 1 >= options_.delay).to(at::kLong);
  // An export writes numbers down; elsewhere a GPU would have to be waited for.
  return (torch::jit::tracer::isTracing()
              ? rounded_by_numbers(values, range[0].item<float>(), range[1].item<float>(), first_)
              : rounded(values, range, first_, rounds))
      .to(x.scalar_type());
}

at::Tensor FakeQuantize::with(const at::Tensor& range) const {
  if (options_.range == FakeQuantizeOptions::Range::kLast) return range;
  // Without bias after t steps: the biased average, which starts at zero, over 1 - decay^t.
  const auto share = [](const at::Tensor& steps) { return 1 - at::pow(kDecay, steps.to(at::kFloat)); };
  const at::Tensor before = at::stack({min_, max_}) * share(local_step_);
  return (before + (range - before) * (1 - kDecay)) / share(local_step_ + 1);
}

void FakeQuantize::commit_statistics(const at::Tensor& proceed) {
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> passes = std::exchange(passes_, {});
  if (passes.empty()) return;
  const at::Tensor range = with(passes.size() == 1 ? passes[0] : at::stack(passes).mean(0));
  const auto take = [&](const at::Tensor& variable, const at::Tensor& value) {
    variable.copy_(proceed.defined() ? at::where(proceed, value, variable) : value);
  };
  take(min_, range[0]);
  take(max_, range[1]);
  take(local_step_, local_step_ + 1);
}

}  // namespace osprey::nn
