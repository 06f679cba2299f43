#pragma once
#include <ATen/WrapDimUtils.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <vector>

#include "osprey/base/error.h"

namespace osprey {

/// One operation of a traced network, for those that write it in another form. Arguments go by their number.
class TracedNode {
 public:
  explicit TracedNode(const torch::jit::Node& node) : node_(node) {}

  c10::IValue constant(size_t i) const {
    if (const auto found = torch::jit::toIValue(node_.inputs()[i])) return *found;
    throw refused("an argument that is computed");
  }
  bool is_constant(size_t i) const { return torch::jit::toIValue(node_.inputs()[i]).has_value(); }
  int64_t integer(size_t i) const { return constant(i).toInt(); }
  double real(size_t i) const {
    const c10::IValue value = constant(i);
    return value.isTensor() ? value.toTensor().item<double>() : value.toScalar().toDouble();
  }
  bool flag(size_t i) const { return constant(i).toBool(); }
  std::vector<int64_t> integers(size_t i) const { return constant(i).toIntVector(); }
  /// One number for rows and one for columns, or one for both.
  std::vector<int64_t> pair(size_t i) const {
    const std::vector<int64_t> numbers = integers(i);
    return numbers.size() == 1 ? std::vector<int64_t>{numbers[0], numbers[0]} : numbers;
  }
  size_t count() const { return node_.inputs().size(); }
  bool given(size_t i) const { return i < count() && !node_.inputs()[i]->mustBeNone(); }
  bool is_number(size_t i) const {
    return given(i) && !node_.inputs()[i]->type()->isSubtypeOf(*c10::TensorType::get());
  }

  ConfigError refused(const std::string& why) const {
    return ConfigError(fmt::format("{} with {}", node_.kind().toQualString(), why));
  }
  /// Refuses what a rule does not look at, unless it is left out or `usual`.
  void expect(size_t i, const char* name, const c10::IValue& usual = {}) const {
    if (given(i) && (usual.isNone() || constant(i) != usual)) throw refused(name);
  }

  // Tracing has noted types and shapes of all tensors.
  std::vector<int64_t> shape(size_t i) const { return shape_of(node_.inputs()[i]); }
  std::vector<int64_t> result_shape() const { return shape_of(node_.output()); }
  at::ScalarType type(size_t i) const { return type_of(node_.inputs()[i]); }
  at::ScalarType result_type() const { return type_of(node_.output()); }
  /// A dimension of argument i, from 0.
  int64_t axis(size_t i, int64_t dimension) const {
    return at::maybe_wrap_dim(dimension, static_cast<int64_t>(shape(i).size()));
  }

 protected:
  const torch::jit::Node& node() const { return node_; }

 private:
  static const c10::TensorType& traced(const torch::jit::Value* value) {
    const auto& type = value->type()->expectRef<c10::TensorType>();
    TORCH_CHECK(type.isComplete(), "the network is not one that was traced: ", value->debugName(), " has no shape");
    return type;
  }
  static std::vector<int64_t> shape_of(const torch::jit::Value* value) {
    return *traced(value).sizes().concrete_sizes();
  }
  static at::ScalarType type_of(const torch::jit::Value* value) { return *traced(value).scalarType(); }

  const torch::jit::Node& node_;
};

}  // namespace osprey
