#pragma once
#include <ATen/core/Tensor.h>

namespace osprey::nn {

enum class Activation {
  kNone,
  kRelu,
  kRelu6,      ///< min(max(x, 0), 6)
  kSwish,      ///< x * sigmoid(x)
  kHardSwish,  ///< x * relu6(x + 3) / 6
  kSigmoid,
};

/// Elementwise; a new tensor, except that kNone gives `x` itself.
at::Tensor activate(const at::Tensor& x, Activation activation);
/// The same for a tensor that nobody else will look at: in its place, where the gradient can do with the result.
at::Tensor activate_(at::Tensor x, Activation activation);

}  // namespace osprey::nn
