#include "osprey/nn/fake_quantize.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <numeric>
#include <utility>

#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/device.h"

namespace osprey::nn {
namespace {

constexpr double kDecay = 0.999;  // of the moving averages

/// Any tensor as a map of channels, in the same memory where that is in one piece.
at::Tensor as_map(const at::Tensor& x) {
  if (kernels::fuses_batch_norm(x)) return x;
  const int64_t depth = std::gcd<int64_t>(x.numel(), 1024);
  return x.contiguous().view({1, 1, -1, depth}).permute({0, 3, 1, 2});
}

/// The other way round.
at::Tensor of_map(const at::Tensor& map, const at::Tensor& like) {
  return map.sizes() == like.sizes() ? map : map.permute({0, 2, 3, 1}).reshape(like.sizes());
}

/// Rounds by numbers that are written down: for networks that are exported.
at::Tensor traced(const at::Tensor& x, const kernels::RoundingGrid& grid) {
  constexpr int64_t kLast = 255;
  constexpr double kLeast = 1e-30;  // distance of two numbers: all values may be zero
  const at::Tensor& range = grid.range;
  const at::Tensor scale = ((range[1] - range[0]) / static_cast<double>(kLast - grid.first)).clamp_min(kLeast);
  const at::Tensor zero = (range[0].neg() / scale + 0.5).floor().add(grid.first).clamp(grid.first, kLast);
  return at::fake_quantize_per_tensor_affine(x.to(at::kFloat), scale.item<double>(), zero.item<int64_t>(), grid.first,
                                             kLast)
      .to(x.scalar_type());
}

}  // namespace

FakeQuantize::FakeQuantize(const FakeQuantizeOptions& options)
    : options_(options),
      first_(options.narrow ? 1 : 0),
      min_(add_statistic("min", {}, options.initial_min)),
      max_(add_statistic("max", {}, options.initial_max)),
      local_step_(register_buffer("local_step", at::zeros({}, min_.options().dtype(at::kLong)))) {}

bool FakeQuantize::is_waiting() const {
  return is_training() && options_.delay > 1 && !kernels::device::reading_waits(local_step_) &&
         local_step_.item<int64_t>() + 1 < options_.delay;
}

at::Tensor FakeQuantize::forward(const at::Tensor& x) {
  if (x.is_meta()) return x;
  if (torch::jit::tracer::isTracing()) return traced(x, grid());
  return of_map(forward(kernels::PendingMap{.x = as_map(x)}), x);
}

at::Tensor FakeQuantize::forward(const kernels::PendingMap& x) {
  if (is_training()) note(x);
  return is_waiting() ? kernels::pending_values(x) : kernels::rounded_values(x, grid());
}

void FakeQuantize::note(const at::Tensor& x) { note(kernels::PendingMap{.x = as_map(x.detach())}); }

void FakeQuantize::note(const kernels::PendingMap& x) { passes_.push_back(kernels::value_range(x)); }

kernels::RoundingGrid FakeQuantize::grid() const {
  const at::NoGradGuard no_gradients;
  const bool always = !is_training() || options_.delay <= 1;
  return {is_training() ? with(passes_.back()) : at::stack({min_, max_}),
          always ? at::Tensor() : local_step_ + 1 >= options_.delay, first_};
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
