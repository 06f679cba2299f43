#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/alias.h>
#include <torch/csrc/autograd/variable.h>

namespace osprey::kernels {

/// A map once more, in the same memory, for the second way that reads it: a node that gives it gets the gradient of
/// that way by itself. Whoever writes into one is found out by whoever has kept the other. (Below the dispatch of
/// autograd, which would otherwise see a view.)
inline at::Tensor same_again(const at::Tensor& result) {
  at::Tensor again = result.alias();
  torch::autograd::impl::set_version_counter(again, torch::autograd::impl::version_counter(result));
  return again;
}

}  // namespace osprey::kernels
