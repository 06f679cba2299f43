#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace osprey::optim {

/// Tensors by name, in a fixed order: parameters of a model, or the state of an optimizer. The tensors are shared, not
/// copied: writing to them in place changes what they belong to.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The tensors without their names.
std::vector<at::Tensor> tensors_of(const NamedTensors& named);

/// Whose arithmetic is followed where TF 1 graphs and Keras differ.
enum class Arithmetic { kTf1, kTf2 };

}  // namespace osprey::optim
