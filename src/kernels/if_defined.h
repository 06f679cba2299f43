#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace osprey::kernels {

/// An undefined tensor as an argument that is left out.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace osprey::kernels
