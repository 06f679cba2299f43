#include "export/constants.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>

#include <array>
#include <utility>
#include <vector>

namespace osprey {

using torch::jit::Node;

void fold_constants_but_roundings(std::shared_ptr<torch::jit::Graph>& graph) {
  constexpr size_t kScale = 1;  // the number of the argument
  std::vector<std::pair<Node*, c10::IValue>> scales;
  for (Node* node : graph->nodes())
    if (node->kind() == c10::aten::fake_quantize_per_tensor_affine ||
        node->kind() == c10::aten::fake_quantize_per_channel_affine)
      scales.emplace_back(node, torch::jit::toIValue(node->input(kScale)).value());
  // While scales are inputs, nothing that depends on them is constant.
  const std::array unknown = {graph->addInput()->setType(c10::FloatType::get()),
                              graph->addInput()->setType(c10::TensorType::get())};
  for (const auto& [node, scale] : scales) node->replaceInput(kScale, unknown[scale.isTensor() ? 1 : 0]);
  torch::jit::ConstantPropagation(graph);
  for (const auto& [node, scale] : scales) {
    const torch::jit::WithInsertPoint before(node);
    node->replaceInput(kScale, graph->insertConstant(scale));
  }
  for (size_t input = 0; input < unknown.size(); ++input) graph->eraseInput(graph->inputs().size() - 1);
}

}  // namespace osprey
