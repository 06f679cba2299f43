#pragma once
#include <string_view>
#include <unordered_map>
#include <vector>

#include "export/traced_network.h"
#include "export/traced_node.h"

namespace osprey {

/// What the values of a traced network are in the graph that it is written into.
template <class Value>
struct Known {
  std::unordered_map<const torch::jit::Value*, Value> tensors;
  std::unordered_map<const torch::jit::Value*, std::vector<Value>> lists;
};

/// One operation of a network, and the graph that it is written into, of which a `Graph::Value` is one value.
template <class Graph>
class WrittenNode : public TracedNode {
 public:
  using Value = typename Graph::Value;

  WrittenNode(Graph& into, const Known<Value>& known, const torch::jit::Node& node)
      : TracedNode(node), graph(into), known_(known) {}

  Graph& graph;

  Value tensor(size_t i) const {
    const torch::jit::Value* value = node().inputs()[i];
    if (const auto found = known_.tensors.find(value); found != known_.tensors.end()) return found->second;
    return graph.constant(constant(i).toTensor());
  }
  std::vector<Value> all_tensors() const {
    std::vector<Value> result;
    for (size_t i = 0; i < count(); ++i) result.push_back(tensor(i));
    return result;
  }
  const std::vector<Value>& tensors(size_t i) const {
    const auto found = known_.lists.find(node().inputs()[i]);
    if (found == known_.lists.end()) throw refused("a list that is not made by the network");
    return found->second;
  }

 protected:
  const Known<Value>& known() const { return known_; }

 private:
  const Known<Value>& known_;
};

/// Writes a traced network, of which all shapes are known, by a rule for each of its operations.
///
/// Operation  a WrittenNode, with `unbound()`: what aten::unbind gives
/// network    as it was traced; not changed
/// inputs     what its inputs from `first_input` on are in the graph
/// rule_for   from the name of an operation of libtorch ("relu", or "relu_") to what writes it, a function from an
///            Operation to a value; null where there is no rule
/// returns    what the elements of its tuple are in the graph
/// throws     ConfigError naming an operation that cannot be written; c10::Error for a form of one that no rule thought of
template <class Operation, class Graph, class RuleFor>
std::vector<typename Graph::Value> write_network(Graph& graph, torch::jit::Graph& network, size_t first_input,
                                                 const std::vector<typename Graph::Value>& inputs, RuleFor rule_for) {
  const auto without_rule = [](const torch::jit::Node& node) {
    return ConfigError(fmt::format("{}, an operation that there is no rule for", node.kind().toQualString()));
  };
  const std::shared_ptr<torch::jit::Graph> traced = pure(network);
  Known<typename Graph::Value> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.tensors[traced->inputs()[first_input + i]] = inputs[i];
  std::vector<typename Graph::Value> result;
  for (const torch::jit::Node* node : traced->nodes()) {
    const Operation operation(graph, known, *node);
    const c10::Symbol kind = node->kind();
    if (kind == c10::prim::TupleConstruct) {
      result = operation.all_tensors();
    } else if (kind == c10::prim::ListUnpack) {
      for (size_t i = 0; i < node->outputs().size(); ++i) known.tensors[node->outputs()[i]] = operation.tensors(0)[i];
    } else if (node->outputs().size() != 1) {
      throw without_rule(*node);
    } else if (node->output()->type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      if (kind != c10::prim::ListConstruct && kind != c10::aten::unbind) throw without_rule(*node);
      known.lists[node->output()] = kind == c10::aten::unbind ? operation.unbound() : operation.all_tensors();
    } else if (kind.is_aten() && node->output()->type()->kind() == c10::TypeKind::TensorType) {
      const auto rule = rule_for(kind.toUnqualString());
      if (rule == nullptr) throw without_rule(*node);
      known.tensors[node->output()] = rule(operation);
    }  // what is left are constants, and numbers that rules read from the network themselves
  }
  return result;
}

}  // namespace osprey
