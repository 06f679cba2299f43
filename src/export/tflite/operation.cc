#include "export/tflite/operation.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace osprey::tflite {
namespace {

/// A tensor that is broadcast against maps, with its channels last.
at::Tensor as_constant_map(at::Tensor value) {
  if (value.dim() == 0) return value;
  while (value.dim() < 4) value = value.unsqueeze(0);
  return value.permute({0, 2, 3, 1});
}

}  // namespace

bool Operation::alone_reads(size_t i) const {
  const int32_t tensor = this->tensor(i).tensor;
  const auto has_its_tensor = [&](const torch::jit::Value* value) {
    const auto found = known().tensors.find(value);
    return found != known().tensors.end() && found->second.tensor == tensor;
  };
  for (const torch::jit::Value* value = node().inputs()[i];;) {
    if (value->uses().size() != 1) return false;
    const auto sources = value->node()->inputs();
    const auto source = std::find_if(sources.begin(), sources.end(), has_its_tensor);
    if (source == sources.end()) return true;
    value = *source;
  }
}

Value Operation::operand(size_t i, bool as_map) const {
  const auto found = torch::jit::toIValue(node().inputs()[i]);
  if (!found) {
    if (type(i) != at::kFloat) throw refused("other numbers than floats");
    return as_map ? map(i) : plain(i);
  }
  const at::Tensor value = found->isTensor() ? found->toTensor().to(at::kFloat)
                                             : at::scalar_tensor(found->toScalar().toDouble(), at::kFloat);
  Value constant = graph.constant(as_map ? as_constant_map(value) : value);
  constant.is_map = as_map;
  return constant;
}

Value Operation::map(size_t i) const {
  const Value value = tensor(i);
  if (value.is_map) return value;
  const Shape lengths = shape(i);
  if (lengths.size() != 4) throw refused("maps of another number of dimensions than two");
  Value result = graph.add(BuiltinOperator_TRANSPOSE, {value, graph.integers({0, 2, 3, 1})}, channels_last(lengths));
  result.is_map = true;
  return result;
}

Value Operation::plain(size_t i) const {
  const Value value = tensor(i);
  if (!value.is_map) return value;
  const Shape lengths = shape(i);
  const bool is_flat = lengths[1] == 1 || (lengths[2] == 1 && lengths[3] == 1);
  Value result = is_flat ? graph.add(BuiltinOperator_RESHAPE, {value, graph.integers(lengths)}, lengths)
                         : graph.add(BuiltinOperator_TRANSPOSE, {value, graph.integers({0, 3, 1, 2})}, lengths);
  result.is_map = false;
  return result;
}

int32_t Operation::written_axis(const Value& value, int64_t dimension) {
  constexpr int32_t kWritten[] = {0, 3, 1, 2};
  return value.is_map ? kWritten[dimension] : static_cast<int32_t>(dimension);
}

bool Operation::has_map() const {
  for (const size_t i : {0, 1})
    if (!is_number(i) && !is_constant(i) && tensor(i).is_map) return true;
  return false;
}

std::vector<Value> Operation::unbound() const {
  const int64_t dimension = axis(0, integer(1));
  std::vector<Value> result;
  for (const at::Tensor& one : constant(0).toTensor().unbind(dimension)) result.push_back(graph.constant(one.clone()));
  return result;
}

}  // namespace osprey::tflite
