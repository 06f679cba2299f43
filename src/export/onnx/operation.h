#pragma once
#include <cstdint>
#include <vector>

#include "export/onnx/graph.h"
#include "export/written_network.h"

namespace osprey {

/// One operation of the network, and the ONNX graph that it is written into.
class Operation : public WrittenNode<OnnxGraph> {
 public:
  using WrittenNode::WrittenNode;

  /// The tensors of a list, as tensors of the result's type and without those of old that stand for nothing, [0].
  std::vector<OnnxValue> tensors_of_one_type(size_t i) const {
    const torch::jit::Node& maker = *node().inputs()[i]->node();
    if (maker.kind() != c10::prim::ListConstruct) return tensors(i);
    const Operation list(graph, known(), maker);
    std::vector<OnnxValue> result;
    for (size_t k = 0; k < list.count(); ++k)
      if (list.shape(k) != std::vector<int64_t>{0}) result.push_back(list.operand(k, result_type()));
    return result;
  }

  /// The slices of a tensor along a dimension.
  std::vector<OnnxValue> unbound() const {
    const int64_t dimension = axis(0, integer(1));
    std::vector<OnnxValue> result;
    for (int64_t i = 0; i < shape(0)[dimension]; ++i) result.push_back(graph.select(tensor(0), dimension, i));
    return result;
  }

  /// A tensor or a number, as a tensor of a type.
  OnnxValue operand(size_t i, at::ScalarType wanted) const {
    const auto found = torch::jit::toIValue(node().inputs()[i]);
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
};

}  // namespace osprey
