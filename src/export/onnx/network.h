#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include "export/onnx/graph.h"

namespace osprey {

/// Writes a traced network, of which all shapes are known, as ONNX nodes.
///
/// network  `net` of a served module, as it was traced; not changed
/// inputs   what its inputs after `self` are in the graph
/// returns  what the elements of its tuple are in the graph
/// throws   ConfigError naming an operation that cannot be written; c10::Error for a form of one that no rule thought of
std::vector<OnnxValue> add_network(OnnxGraph& graph, torch::jit::Graph& network, const std::vector<OnnxValue>& inputs);

}  // namespace osprey
