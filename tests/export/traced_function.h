#pragma once
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace osprey::testing {

using Function = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

/// What a function does to a tensor, as `net` of a served module does it: its inputs are `self` and the tensor.
inline std::shared_ptr<torch::jit::Graph> traced(const Function& function, const at::Tensor& x) {
  const at::NoGradGuard no_gradients;
  const auto stack = [&](torch::jit::Stack inputs) -> torch::jit::Stack {
    std::vector<c10::IValue> results;
    for (const at::Tensor& result : function(inputs.at(0).toTensor())) results.emplace_back(result);
    return {c10::ivalue::Tuple::create(std::move(results))};
  };
  const auto trace = torch::jit::tracer::trace(
      {x.clone()}, stack, [](const at::Tensor&) { return ""; }, /*strict=*/true, /*force_outplace=*/false);
  trace.first->graph->insertInput(0, "self");
  return trace.first->graph;
}

/// The operations of a graph, by their names without the mark of those that work in place.
inline std::set<std::string, std::less<>> operations_of(torch::jit::Graph& graph) {
  std::set<std::string, std::less<>> result;
  for (const torch::jit::Node* node : graph.nodes()) {
    std::string name = node->kind().toUnqualString();
    if (name.ends_with('_')) name.pop_back();
    result.insert(name);
  }
  return result;
}

}  // namespace osprey::testing
