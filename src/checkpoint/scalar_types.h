#pragma once
#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace osprey::checkpoint {

/// The name of an element type in a checkpoint's header, e.g. "float32".
///
/// throws  c10::Error for a type that no model holds
std::string scalar_type_name(c10::ScalarType type);

/// The inverse; nothing for an unknown name.
std::optional<c10::ScalarType> scalar_type(const std::string& name);

/// The element type of a number of tensorflow.DataType (tensorflow/core/framework/types.proto); nothing for those that
/// are no numbers, or of which no model is made.
std::optional<c10::ScalarType> scalar_type_in_tensorflow(int data_type);

}  // namespace osprey::checkpoint
