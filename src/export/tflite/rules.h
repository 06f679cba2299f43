#pragma once
#include <string_view>
#include <vector>

#include "export/tflite/operation.h"

namespace osprey::tflite {

/// Adds what an operation does to the graph, and says which value its result is.
/// throws  ConfigError naming a form of the operation that is not written
using Rule = Value (*)(const Operation&);

/// The rule for an operation of libtorch whose result is one tensor ("relu", or "relu_"); none where there is none.
Rule rule(std::string_view operation);

/// The names of all operations that there are rules for.
std::vector<std::string_view> rules();

}  // namespace osprey::tflite
