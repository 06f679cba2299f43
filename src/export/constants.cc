#include "export/constants.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>

#include <utility>
#include <vector>

namespace osprey {

using torch::jit::Node;

void fold_constants_but_roundings(std::shared_ptr<torch::jit::Graph>& graph) {
  constexpr size_t kScale = 1;  // the number of the argument
  std::vector<std::pair<Node*, c10::IValue>> scales;
  for (Node* node : graph->nodes())
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine)
      scales.emplace_back(node, torch::jit::toIValue(node->input(kScale)).value());
  // While scales are an input, nothing that depends on them is constant.
  torch::jit::Value* const unknown = graph->addInput()->setType(c10::FloatType::get());
  for (const auto& [node, scale] : scales) node->replaceInput(kScale, unknown);
  torch::jit::ConstantPropagation(graph);
  for (const auto& [node, scale] : scales) {
    const torch::jit::WithInsertPoint before(node);
    node->replaceInput(kScale, graph->insertConstant(scale));
  }
  graph->eraseInput(graph->inputs().size() - 1);
}

}  // namespace osprey
