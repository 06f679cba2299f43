#pragma once
#include <ATen/WrapDimUtils.h>
#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "export/onnx/graph.h"
#include "osprey/base/error.h"

namespace osprey {

/// What the values of the network are in the graph.
struct Known {
  std::unordered_map<const torch::jit::Value*, OnnxValue> tensors;
  std::unordered_map<const torch::jit::Value*, std::vector<OnnxValue>> lists;
};

/// One operation of the network, and the graph that it is written into. Arguments go by their number.
class Operation {
 public:
  Operation(OnnxGraph& into, const Known& known, const torch::jit::Node& node)
      : graph(into), known_(known), node_(node) {}

  OnnxGraph& graph;

  OnnxValue tensor(size_t i) const {
    const torch::jit::Value* value = node_.inputs()[i];
    if (const auto found = known_.tensors.find(value); found != known_.tensors.end()) return found->second;
    return graph.constant(constant(i).toTensor());
  }
  std::vector<OnnxValue> all_tensors() const {
    std::vector<OnnxValue> result;
    for (size_t i = 0; i < node_.inputs().size(); ++i) result.push_back(tensor(i));
    return result;
  }
  const std::vector<OnnxValue>& tensors(size_t i) const {
    const auto found = known_.lists.find(node_.inputs()[i]);
    if (found == known_.lists.end()) throw refused("a list that is not made by the network");
    return found->second;
  }
  /// The tensors of a list, as tensors of the result's type and without those of old that stand for nothing, [0].
  std::vector<OnnxValue> tensors_of_one_type(size_t i) const {
    const torch::jit::Node& maker = *node_.inputs()[i]->node();
    if (maker.kind() != c10::prim::ListConstruct) return tensors(i);
    const Operation list(graph, known_, maker);
    std::vector<OnnxValue> result;
    for (size_t k = 0; k < list.count(); ++k)
      if (list.shape(k) != std::vector<int64_t>{0}) result.push_back(list.operand(k, result_type()));
    return result;
  }

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

  /// A tensor or a number, as a tensor of a type.
  OnnxValue operand(size_t i, at::ScalarType wanted) const {
    const auto found = torch::jit::toIValue(node_.inputs()[i]);
    if (found && !found->isTensor()) return graph.number(found->toScalar().toDouble(), wanted);
    if (found) return graph.constant(found->toTensor().to(wanted));
    return type(i) == wanted ? tensor(i) : graph.cast(tensor(i), wanted);
  }

  /// The type in which two operands meet.
  at::ScalarType common_type() const {
    if (!is_number(1)) return at::promoteTypes(type(0), type(1));
    return constant(1).isDouble() && at::isIntegralType(type(0), /*includeBool=*/true) ? at::kFloat : type(0);
  }

  /// Elementwise, of arguments 0 and 1.
  OnnxValue arithmetic(const char* operation) const {
    if (result_type() == at::kBool) throw refused("truth values");
    return graph.add(operation, {operand(0, result_type()), operand(1, result_type())});
  }
  OnnxValue comparison(const char* operation) const {
    return graph.add(operation, {operand(0, common_type()), operand(1, common_type())});
  }
  /// Elementwise, of argument 0.
  OnnxValue elementwise(const char* operation) const {
    if (!at::isFloatingType(result_type())) throw refused("whole numbers");
    return graph.add(operation, {operand(0, result_type())});
  }

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

  const Known& known_;
  const torch::jit::Node& node_;
};

}  // namespace osprey
