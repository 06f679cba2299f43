#include "osprey/train/loss_scale.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace osprey::train {

LossScale::LossScale(const LossScaleOptions& options, const at::Device& device)
    : options_(options),
      scale_(at::full({}, options.initial, at::TensorOptions(device).dtype(at::kFloat))),
      steady_(at::zeros({}, at::TensorOptions(device).dtype(at::kLong))) {
  TORCH_CHECK(options.initial > 0 && options.growth_interval >= 1,
              "a loss scale needs an initial value > 0 and a growth "
              "interval >= 1, got ",
              options.initial, " and ", options.growth_interval);
}

at::Tensor LossScale::can_shrink() const {
  return options_.dynamic ? scale_.gt(kLeast) : at::zeros({}, scale_.options().dtype(at::kBool));
}

void LossScale::update(const at::Tensor& finite, const at::Tensor& healthy) {
  if (!options_.dynamic) return;
  const at::NoGradGuard no_gradients;
  const at::Tensor steady = steady_ + 1, grows = finite.logical_and(steady.ge(options_.growth_interval));
  const at::Tensor after_success = at::where(grows, scale_ * 2, scale_), halved = (scale_ / 2).clamp_min(kLeast);
  const at::Tensor wanted = at::where(finite, after_success, halved);
  scale_.copy_(at::where(healthy.logical_and(wanted.isfinite()), wanted, scale_));
  const at::Tensor counted = at::where(finite.logical_and(grows.logical_not()), steady, at::zeros_like(steady));
  steady_.copy_(at::where(healthy, counted, steady_));
}

}  // namespace osprey::train
