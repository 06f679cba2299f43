#include "osprey/nn/name_map.h"

namespace osprey::nn {
namespace {

std::string replace(std::string name, char from, char to) {
  std::replace(name.begin(), name.end(), from, to);
  return name;
}

bool is_depthwise(const std::string& name) {
  return name.find("depthwise", name.find_last_of("./") + 1) != std::string::npos;  // npos + 1 is 0
}

}  // namespace

std::string tf_name(const std::string& our_name) { return replace(our_name, '.', '/'); }
std::string our_name(const std::string& tf_name) { return replace(tf_name, '/', '.'); }

std::vector<int64_t> tf_shape(const std::string& our_name, at::IntArrayRef shape) {
  if (shape.size() != 4) return shape.vec();
  if (is_depthwise(our_name)) return {shape[2], shape[3], shape[0], shape[1]};
  return {shape[2], shape[3], shape[1], shape[0]};
}

at::Tensor to_tf_layout(const std::string& our_name, const at::Tensor& tensor) {
  if (tensor.dim() != 4) return tensor;
  return (is_depthwise(our_name) ? tensor.permute({2, 3, 0, 1}) : tensor.permute({2, 3, 1, 0})).contiguous();
}

at::Tensor from_tf_layout(const std::string& our_name, const at::Tensor& tensor) {
  if (tensor.dim() != 4) return tensor;
  return (is_depthwise(our_name) ? tensor.permute({2, 3, 0, 1}) : tensor.permute({3, 2, 0, 1})).contiguous();
}

}  // namespace osprey::nn
