#include "osprey/models/detection_model.h"

namespace osprey::models {

std::vector<std::pair<std::string, at::Tensor>> variables(const torch::nn::Module& model) {
  std::vector<std::pair<std::string, at::Tensor>> result;
  for (const auto& item : model.named_parameters()) result.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) result.emplace_back(item.key(), item.value());
  return result;
}

}  // namespace osprey::models
