#include "osprey/optim/named_tensors.h"

namespace osprey::optim {

std::vector<at::Tensor> tensors_of(const NamedTensors& named) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(named.size());
  for (const auto& entry : named) tensors.push_back(entry.second);
  return tensors;
}

}  // namespace osprey::optim
