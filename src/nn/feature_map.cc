#include "osprey/nn/feature_map.h"

#include <ATen/core/Tensor.h>

#include "nn/batch_norm_activation.h"

namespace osprey::nn {

at::Tensor FeatureMap::plus(const at::Tensor& addend, Activation activation) const {
  const std::optional<kernels::Epilogue> clamp = clamp_of(activation);
  const bool normalizes_only = is_pending() && map_.epilogue == kernels::Epilogue{};
  if (!normalizes_only || !clamp) return activate_(values().add_(addend), activation);
  kernels::PendingMap sum = map_;
  sum.epilogue = *clamp;
  return kernels::pending_sum(sum, addend.to(map_.x.scalar_type()));
}

}  // namespace osprey::nn
