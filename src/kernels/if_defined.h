#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace osprey::kernels {

/// An undefined tensor as an argument that is left out.
inline std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

/// The other way round.
inline at::Tensor or_none(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

}  // namespace osprey::kernels
