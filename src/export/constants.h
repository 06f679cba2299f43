#pragma once
#include <torch/csrc/jit/ir/ir.h>

namespace osprey {

/// Works out what a network makes of constants alone, as `torch::jit::ConstantPropagation` does, but leaves the
/// rounding of weights to 8 bits in the graph, for whoever is to compute with 8 bits.
void fold_constants_but_roundings(std::shared_ptr<torch::jit::Graph>& graph);

}  // namespace osprey
