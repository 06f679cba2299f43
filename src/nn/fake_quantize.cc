#include "osprey/nn/fake_quantize.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <limits>
#include <utility>

#include "osprey/kernels/device.h"

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

/// How the numbers lie: value = (number - zero) * scale.
struct Grid {
  at::Tensor scale, zero;  ///< float scalars
};

/// range  [2]
/// first  of the numbers
Grid grid_of(const at::Tensor& range, int64_t first) {
  const at::Tensor scale = ((range[1] - range[0]) / static_cast<double>(kLast - first)).clamp_min(kLeast);
  return {scale, (range[0].neg() / scale + 0.5).floor().add(first).clamp(first, kLast)};
}

/// rounds  int64 scalar: 0, values stay as they are
at::Tensor rounded(const at::Tensor& x, const Grid& grid, int64_t first, const at::Tensor& rounds) {
  at::Tensor inside = x;
  if (x.requires_grad() && at::GradMode::is_enabled()) {  // libtorch lets gradients pass from half a step further out
    const double infinity = std::numeric_limits<double>::infinity();
    inside = at::clamp(x, at::where(rounds > 0, (first - grid.zero) * grid.scale, -infinity),
                       at::where(rounds > 0, (kLast - grid.zero) * grid.scale, infinity));
  }
  return std::get<0>(at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
      inside, grid.scale, grid.zero.to(at::kInt), rounds, first, kLast));
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
  const at::Tensor values = x.to(at::kFloat);
  at::Tensor range;
  if (is_training()) {
    passes_.push_back(range_of(values.detach()));
    if (is_waiting()) return x;
    range = with(passes_.back());
  } else {
    range = at::stack({min_, max_});
  }
  const Grid grid = grid_of(range, first_);
  if (torch::jit::tracer::isTracing())  // an export writes numbers down; elsewhere a GPU would have to be waited for
    return at::fake_quantize_per_tensor_affine(values, grid.scale.item<double>(), grid.zero.item<int64_t>(), first_,
                                               kLast)
        .to(x.scalar_type());
  const bool always = !is_training() || options_.delay <= 1;
  const at::Tensor rounds = always ? at::ones_like(local_step_) : (local_step_ + 1 >= options_.delay).to(at::kLong);
  return rounded(values, grid, first_, rounds).to(x.scalar_type());
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
