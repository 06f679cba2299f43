#pragma once
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <functional>
#include <memory>
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

}  // namespace osprey::testing
