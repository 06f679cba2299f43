#pragma once
#include <string_view>
#include <vector>

#include "export/onnx/operation.h"

namespace osprey {

/// Adds what an operation does to the graph, and says which value its result is.
/// throws  ConfigError naming a form of the operation that ONNX does not have
using OnnxRule = OnnxValue (*)(const Operation&);

/// The rule for an operation of libtorch whose result is one tensor ("relu", or "relu_"); none where there is none.
OnnxRule onnx_rule(std::string_view operation);

/// The names of all operations that there are rules for.
std::vector<std::string_view> onnx_rules();

}  // namespace osprey
