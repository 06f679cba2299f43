#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <string>
#include <vector>

namespace osprey {

/// The first argument of an operation.
struct MapInput {
  std::vector<int64_t> sizes;
  bool channels_last = false;
};

/// What all operations of a name were given, in the order in which they ran.
///
/// operation  "aten::_convolution"
/// arguments  of the graph, which runs on them once
/// throws     c10::Error where it cannot run
std::vector<MapInput> inputs_of(torch::jit::Graph& graph, const std::string& operation, torch::jit::Stack arguments);

}  // namespace osprey
