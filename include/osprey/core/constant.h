#pragma once
#include <ATen/core/Tensor.h>

namespace osprey {

/// A vector of numbers for code that export may trace, where it becomes a constant; `at::tensor` would leave a tensor
/// without values there.
at::Tensor constant(at::ArrayRef<double> values, const at::TensorOptions& options);

}  // namespace osprey
