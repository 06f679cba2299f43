#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace osprey {

/// Works out what a network makes of constants alone, as `torch::jit::ConstantPropagation` does, but leaves the
/// rounding of weights to 8 bits in the graph, for whoever is to compute with 8 bits. Scales of roundings are numbers
/// in `graph`, as a trace writes them.
void fold_constants_but_roundings(std::shared_ptr<torch::jit::Graph>& graph);

}  // namespace osprey
