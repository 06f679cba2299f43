#pragma once
#include <ATen/ATen.h>

#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

/// A tensor per parameter, of its shape, layout and device, that an optimizer carries from step to step.
class Slots {
 public:
  /// name  TensorFlow's name of the slot
  Slots(const NamedTensors& parameters, std::string name, double initial_value) : name_(std::move(name)) {
    for (const auto& [parameter_name, parameter] : parameters) {
      names_.push_back(parameter_name);
      tensors_.push_back(at::full_like(parameter.detach(), initial_value));
    }
  }

  /// Those of the parameters at `indices`.
  std::vector<at::Tensor> at_indices(const std::vector<int64_t>& indices) const {
    std::vector<at::Tensor> chosen;
    chosen.reserve(indices.size());
    for (int64_t i : indices) chosen.push_back(tensors_[static_cast<size_t>(i)]);
    return chosen;
  }

  void append_to(NamedTensors& state) const {
    for (size_t i = 0; i < tensors_.size(); ++i) state.emplace_back(names_[i] + "." + name_, tensors_[i]);
  }

 private:
  std::string name_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
};

}  // namespace osprey::optim
