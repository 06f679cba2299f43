#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace osprey::optim {

/// Writes numbers that the host has worked out, as float32, into a tensor on the device of `like`, without waiting for
/// it. The tensor is made where it is undefined, and stays where it is from then on: a recorded step reads it there.
inline void write(const std::vector<double>& numbers, const at::Tensor& like, at::Tensor& result) {
  const at::NoGradGuard no_gradients;
  const at::Tensor here = at::tensor(numbers, at::TensorOptions(at::kFloat).pinned_memory(like.is_cuda()));
  if (!result.defined()) result = at::empty_like(here, at::TensorOptions(like.device()).pinned_memory(false));
  result.copy_(here, /*non_blocking=*/true);
}

}  // namespace osprey::optim
