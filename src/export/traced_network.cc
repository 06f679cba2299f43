#include "export/traced_network.h"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/frozen_conv_folding.h>
#include <torch/csrc/jit/passes/remove_mutation.h>

#include <utility>
#include <vector>

#include "export/constants.h"
#include "osprey/base/error.h"

namespace osprey {
namespace {

using torch::jit::Node;
using torch::jit::Value;

/// While it lives the parameters of a model need no gradient, so that they are constants of what is traced.
class ConstantParameters {
 public:
  explicit ConstantParameters(const models::DetectionModel& model) : parameters_(model.parameters()) {
    for (at::Tensor& parameter : parameters_) {
      wanted_.push_back(parameter.requires_grad());
      parameter.set_requires_grad(false);
    }
  }
  ~ConstantParameters() {
    for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].set_requires_grad(wanted_[i]);
  }
  ConstantParameters(const ConstantParameters&) = delete;
  ConstantParameters& operator=(const ConstantParameters&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<bool> wanted_;
};

bool works_in_place(const Node& node) { return node.maybeSchema() != nullptr && node.schema().is_mutable(); }

/// Whether the memory of a value is read by one node alone.
bool has_one_reader(const Value* value, torch::jit::AliasDb& aliases) {
  if (value->uses().size() != 1) return false;
  for (const Value* source : value->node()->inputs())
    if (aliases.mayAlias(source, value) && !has_one_reader(source, aliases)) return false;
  return true;
}

}  // namespace

std::shared_ptr<torch::jit::Graph> traced_network(models::DetectionModel& model, const torch::jit::Stack& inputs,
                                                  const std::function<torch::jit::Stack(torch::jit::Stack)>& function) {
  TORCH_CHECK(!model.is_training(), "the model to be served must be in evaluation mode");
  const at::NoGradGuard no_gradients;
  const ConstantParameters constant(model);
  function(inputs);  // the anchors are made once and kept; made while tracing, their memory would be left unwritten
  const auto traced = torch::jit::tracer::trace(
      inputs, function, [](const at::Tensor&) { return ""; }, /*strict=*/true, /*force_outplace=*/false);
  std::shared_ptr<torch::jit::Graph> graph = traced.first->graph;
  fold_constants_but_roundings(graph);
  torch::jit::FoldFrozenConvBatchnorm(graph);
  torch::jit::EliminateDeadCode(graph);
  // Detached, the model's own parameters stay without gradient when they get it back.
  for (Node* node : graph->nodes())
    if (node->kind() == c10::prim::Constant && node->hasAttribute(c10::attr::value) &&
        node->kindOf(c10::attr::value) == torch::jit::AttributeKind::t)
      node->t_(c10::attr::value, node->t(c10::attr::value).detach());
  return graph;
}

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

}  // namespace osprey
