#include "export/onnx/network.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include "export/constants.h"
#include "export/onnx/rules.h"
#include "osprey/base/error.h"

namespace osprey {
namespace {

using torch::jit::Node;
using torch::jit::Value;

bool works_in_place(const Node& node) { return node.maybeSchema() != nullptr && node.schema().is_mutable(); }

/// Whether the memory of a value is read by one node alone.
bool has_one_reader(const Value* value, torch::jit::AliasDb& aliases) {
  if (value->uses().size() != 1) return false;
  for (const Value* source : value->node()->inputs())
    if (aliases.mayAlias(source, value) && !has_one_reader(source, aliases)) return false;
  return true;
}

/// The network without what has no effect, and without operations in place. Those that are left have the only reader of
/// what they change, so that they may as well give something new.
std::shared_ptr<torch::jit::Graph> pure(torch::jit::Graph& network) {
  auto graph = network.copy();
  torch::jit::RemoveTensorMutation(graph);
  fold_constants_but_roundings(graph);
  torch::jit::EliminateDeadCode(graph);
  torch::jit::AliasDb aliases(graph);
  for (const Node* node : graph->nodes())
    if (works_in_place(*node) && !has_one_reader(node->input(0), aliases))
      throw ConfigError(fmt::format("{} changes what other operations read", node->kind().toQualString()));
  return graph;
}

ConfigError without_rule(const Node& node) {
  return ConfigError(fmt::format("{}, an operation that there is no rule for", node.kind().toQualString()));
}

/// The slices of a tensor along a dimension.
std::vector<OnnxValue> unbound(const Operation& o) {
  const int64_t axis = o.axis(0, o.integer(1));
  std::vector<OnnxValue> result;
  for (int64_t i = 0; i < o.shape(0)[axis]; ++i) result.push_back(o.graph.select(o.tensor(0), axis, i));
  return result;
}

}  // namespace

std::vector<OnnxValue> add_network(OnnxGraph& graph, torch::jit::Graph& network, const std::vector<OnnxValue>& inputs) {
  const std::shared_ptr<torch::jit::Graph> traced = pure(network);
  Known known;
  for (size_t i = 0; i < inputs.size(); ++i) known.tensors[traced->inputs()[i + 1]] = inputs[i];
  std::vector<OnnxValue> result;
  for (const Node* node : traced->nodes()) {
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
      known.lists[node->output()] = kind == c10::aten::unbind ? unbound(operation) : operation.all_tensors();
    } else if (kind.is_aten() && node->output()->type()->kind() == c10::TypeKind::TensorType) {
      const OnnxRule rule = onnx_rule(kind.toUnqualString());
      if (rule == nullptr) throw without_rule(*node);
      known.tensors[node->output()] = rule(operation);
    }  // what is left are constants, and numbers that rules read from the network themselves
  }
  return result;
}

}  // namespace osprey
