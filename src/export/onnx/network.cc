#include "export/onnx/network.h"

#include "export/onnx/rules.h"

namespace osprey {

std::vector<OnnxValue> add_network(OnnxGraph& graph, torch::jit::Graph& network, const std::vector<OnnxValue>& inputs) {
  return write_network<Operation>(graph, network, /*first_input=*/1, inputs, onnx_rule);
}

}  // namespace osprey
