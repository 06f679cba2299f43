#include "osprey/nn/activation.h"

#include <ATen/ATen.h>

namespace osprey::nn {

at::Tensor activate(const at::Tensor& x, Activation activation) {
  if (x.is_meta() && activation != Activation::kNone) return at::empty_like(x);  // not all have kernels for shapes
  switch (activation) {
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kRelu6:
      return at::hardtanh(x, 0, 6);
    case Activation::kSwish:
      return at::silu(x);
    case Activation::kHardSwish:
      return at::hardswish(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
    case Activation::kNone:
      break;
  }
  return x;
}

at::Tensor activate_(at::Tensor x, Activation activation) {
  return activation == Activation::kRelu && !x.is_meta() ? x.relu_() : activate(x, activation);
}

}  // namespace osprey::nn
