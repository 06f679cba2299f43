#include "osprey/nn/quantized_concat.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace osprey::nn {
namespace {

constexpr double kDecay = 0.999;  // of the moving averages

constexpr int64_t kLast = 255;    // of the 256 numbers, one of which is zero
constexpr float kLeast = 1e-30f;  // distance of these: all values may be zero

/// range  [2] float: not above and not below zero
at::Tensor rounded(const at::Tensor& x, const at::Tensor& range) {
  const at::Tensor scale = ((range[1] - range[0]) / kLast).clamp_min(kLeast);
  const at::Tensor zero = (range[0].neg() / scale).round().clamp(0, kLast).to(at::kInt);
  return at::fake_quantize_per_tensor_affine(x, scale, zero, 0, kLast);
}

/// The same by numbers that an export can write down.
at::Tensor rounded(const at::Tensor& x, float low, float high) {
  const float scale = std::max((high - low) / kLast, kLeast);
  const int64_t zero = std::clamp<int64_t>(std::lround(-low / scale), 0, kLast);
  return at::fake_quantize_per_tensor_affine(x, scale, zero, 0, kLast);
}

at::Tensor range_of(const at::Tensor& x) {
  const auto [least, largest] = at::aminmax(x);
  return at::stack({least.clamp_max(0), largest.clamp_min(0)});
}

}  // namespace

QuantizedConcat::QuantizedConcat()
    : min_(add_statistic("min", {}, 0)),
      max_(add_statistic("max", {}, 6)),  // what a relu6 gives at most
      local_step_(register_buffer("local_step", at::zeros({}, min_.options().dtype(at::kLong)))) {}

at::Tensor QuantizedConcat::forward(const std::vector<at::Tensor>& maps) {
  const at::Tensor x = at::cat(maps, 1);
  if (x.is_meta()) return x;
  const at::Tensor values = x.to(at::kFloat);
  if (!is_training()) return rounded(values, min_.item<float>(), max_.item<float>()).to(x.scalar_type());
  const at::Tensor range = range_of(values.detach());
  passes_.push_back(range);
  return rounded(values, with(range).range).to(x.scalar_type());
}

QuantizedConcat::Averages QuantizedConcat::with(const at::Tensor& range) const {
  // Without bias after t steps: the biased average, which starts at zero, over 1 - decay^t.
  const auto share = [](const at::Tensor& steps) { return 1 - at::pow(kDecay, steps.to(at::kFloat)); };
  const at::Tensor step = local_step_ + 1, before = at::stack({min_, max_}) * share(local_step_);
  return {(before + (range - before) * (1 - kDecay)) / share(step), step};
}

void QuantizedConcat::commit_statistics(const at::Tensor& proceed) {
  const at::NoGradGuard no_gradients;
  const std::vector<at::Tensor> passes = std::exchange(passes_, {});
  if (passes.empty()) return;
  const auto [range, step] = with(at::stack(passes).mean(0));
  const auto take = [&](const at::Tensor& variable, const at::Tensor& value) {
    variable.copy_(proceed.defined() ? at::where(proceed, value, variable) : value);
  };
  take(min_, range[0]);
  take(max_, range[1]);
  take(local_step_, step);
}

}  // namespace osprey::nn
