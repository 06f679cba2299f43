#include "osprey/nn/fake_quantize.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <numeric>
#include <utility>

#include "kernels/arithmetic/rounding.h"
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/device.h"

namespace osprey::nn {
namespace {

constexpr double kDecay = 0.999;  // of the moving averages

/// What a moving average becomes by a further value after so many steps: as without bias, of a biased average that
/// starts at zero, over 1 - kDecay^steps. (In float32, as TensorFlow's: the first steps' rounding errors, some 1e-5 of
/// the average, decide to which number values fall that lie between two.)
at::Tensor averaged(const at::Tensor& average, const at::Tensor& value, const at::Tensor& steps) {
  const auto share = [](const at::Tensor& count) { return 1 - at::pow(kDecay, count.to(at::kFloat)); };
  const at::Tensor biased = average * share(steps);
  return (biased + (value - biased) * (1 - kDecay)) / share(steps + 1);
}

std::vector<int64_t> sizes_of(const FakeQuantizeOptions& options) {
  return options.channels > 0 ? std::vector{options.channels} : std::vector<int64_t>();
}

/// Any tensor as a map of channels, in the same memory where that is in one piece.
at::Tensor as_map(const at::Tensor& x) {
  if (kernels::fuses_batch_norm(x)) return x;
  const int64_t depth = std::gcd<int64_t>(x.numel(), 1024);
  return x.contiguous().view({1, 1, -1, depth}).permute({0, 3, 1, 2});
}

/// The other way round.
at::Tensor of_map(const at::Tensor& map, const at::Tensor& like) {
  return kernels::fuses_batch_norm(like) ? map : map.permute({0, 2, 3, 1}).reshape(like.sizes());
}

}  // namespace

AffineNumbers numbers_of_range(float least, float largest, int64_t first) {
  const float range[] = {least, largest};
  const auto rounding = kernels::Rounding::of(range, /*rounds=*/true, static_cast<int>(first));
  const int64_t zero = first - static_cast<int64_t>(rounding.least);
  return {rounding.scale, zero, first, zero + static_cast<int64_t>(rounding.largest)};
}

at::Tensor scales_of_channels(const at::Tensor& largest) {
  // A channel of next to no weights has the step of one with this share of the layer's largest weight: runtimes round
  // biases to 32 bits in steps of weight times map, and would have no number for one of any size in smaller steps.
  constexpr double kLeastShare = 1e-4, kLeastStep = 1e-30;
  return (at::maximum(largest, kLeastShare * largest.max()) / kLargestWeight).clamp_min(kLeastStep);
}

FakeQuantize::FakeQuantize(const FakeQuantizeOptions& options)
    : options_(options),
      first_(options.narrow ? 1 : 0),
      min_(add_statistic("min", sizes_of(options), options.initial_min)),
      max_(add_statistic("max", sizes_of(options), options.initial_max)),
      local_step_(register_buffer("local_step", at::zeros({}, min_.options().dtype(at::kLong)))) {
  TORCH_CHECK(options.channels == 0 || (options.narrow && options.range == FakeQuantizeOptions::Range::kLast),
              "expected a narrow range, the last one, where channels have ranges of their own");
}

bool FakeQuantize::is_waiting() const {
  return is_training() && options_.delay > 1 && !kernels::device::reading_waits(local_step_) &&
         local_step_.item<int64_t>() + 1 < options_.delay;
}

at::Tensor FakeQuantize::forward(const at::Tensor& x) {
  if (x.is_meta() || x.numel() == 0) return x;
  if (options_.channels > 0) {
    if (is_training()) note(x);
    return is_waiting() ? x : by_channels(x);
  }
  if (torch::jit::tracer::isTracing()) return traced(x);
  if (!is_waiting()) return of_map(forward(kernels::PendingMap{.x = as_map(x)}), x);
  note(x);
  return x;
}

at::Tensor FakeQuantize::forward(const kernels::PendingMap& x) {
  if (is_training()) note(x);
  return is_waiting() ? kernels::pending_values(x) : kernels::rounded_values(x, grid());
}

at::Tensor FakeQuantize::by_channels(const at::Tensor& x) const {
  at::Tensor scales, zeros;
  {  // in a network that is exported they are numbers that are written down
    const at::NoGradGuard no_gradients;
    const at::tracer::impl::NoTracerDispatchMode not_traced;
    scales = scales_of_channels(is_training() ? passes_.back()[1] : max_);
    zeros = at::zeros_like(scales);  // as floats: libtorch would read whole numbers back from a GPU to look at them
  }
  at::Tensor rounded =
      at::fake_quantize_per_channel_affine(x.to(at::kFloat), scales, zeros, /*axis=*/0, -kLargestWeight, kLargestWeight)
          .to(x.scalar_type());
  if (!torch::jit::tracer::isTracing()) rounded = at::where(x.isnan(), x, rounded);
  return is_training() && options_.delay > 1 ? at::where(local_step_ + 1 >= options_.delay, rounded, x) : rounded;
}

at::Tensor FakeQuantize::traced(const at::Tensor& x) const {
  TORCH_CHECK(!is_training(), "a network is exported as it evaluates");
  const auto [scale, zero, first, last] = numbers_of_range(min_.item<float>(), max_.item<float>(), first_);
  return at::fake_quantize_per_tensor_affine(x.to(at::kFloat), scale, zero, first, last).to(x.scalar_type());
}

void FakeQuantize::note(const at::Tensor& x) {
  if (options_.channels == 0) return note(kernels::PendingMap{.x = as_map(x.detach())});
  const at::Tensor largest = x.detach().to(at::kFloat).abs().flatten(1).amax(1);
  passes_.push_back(at::stack({-largest, largest}));
}

void FakeQuantize::note(const kernels::PendingMap& x) {
  TORCH_CHECK(options_.channels == 0, "expected one range for a map, got ", options_.channels);
  passes_.push_back(kernels::value_range(x));
}

kernels::RoundingGrid FakeQuantize::grid() const {
  TORCH_CHECK(options_.channels == 0, "expected one range for a map, got ", options_.channels);
  const at::NoGradGuard no_gradients;
  kernels::RoundingGrid grid{.first = first_};
  if (is_training() && options_.range == FakeQuantizeOptions::Range::kLast) {
    grid.range = passes_.back();
  } else {
    grid.range = at::stack({min_, max_});
    if (is_training()) grid.range = averaged(grid.range, passes_.back(), local_step_);
  }
  if (is_training() && options_.delay > 1) grid.rounds = local_step_ + 1 >= options_.delay;
  return grid;
}

void FakeQuantize::commit(const std::vector<FakeQuantize*>& layers, const at::Tensor& proceed) {
  const at::NoGradGuard no_gradients;
  for (const auto range_of : {FakeQuantizeOptions::Range::kMovingAverage, FakeQuantizeOptions::Range::kLast}) {
    std::vector<at::Tensor> ranges, least, largest, steps;
    std::vector<int64_t> sizes;
    for (FakeQuantize* layer : layers) {
      if (layer->options_.range != range_of) continue;
      const std::vector<at::Tensor> passes = std::exchange(layer->passes_, {});
      if (passes.empty()) continue;
      ranges.push_back((passes.size() == 1 ? passes[0] : at::stack(passes).mean(0)).view({2, -1}));
      least.push_back(layer->min_.view(-1));
      largest.push_back(layer->max_.view(-1));
      steps.push_back(layer->local_step_);
      sizes.push_back(layer->min_.numel());
    }
    if (ranges.empty()) continue;
    const at::Tensor before = at::stack({at::cat(least), at::cat(largest)}), done = at::stack(steps);
    at::Tensor after = at::cat(ranges, 1), counted = done + 1;
    if (range_of == FakeQuantizeOptions::Range::kMovingAverage) after = averaged(before, after, done);
    if (proceed.defined()) {
      after = at::where(proceed, after, before);
      counted = at::where(proceed, counted, done);
    }
    at::_foreach_copy_(least, after[0].split_with_sizes(sizes));
    at::_foreach_copy_(largest, after[1].split_with_sizes(sizes));
    at::_foreach_copy_(steps, counted.unbind());
  }
}

}  // namespace osprey::nn
