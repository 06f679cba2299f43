#include "checkpoint/scalar_types.h"

#include <c10/util/Exception.h>

#include <array>

namespace osprey::checkpoint {
namespace {

struct Type {
  c10::ScalarType type;
  const char* name;
  int in_tensorflow;  ///< number of tensorflow.DataType
};

constexpr std::array<Type, 9> kTypes = {{{c10::kFloat, "float32", 1},
                                         {c10::kDouble, "float64", 2},
                                         {c10::kHalf, "float16", 19},
                                         {c10::kBFloat16, "bfloat16", 14},
                                         {c10::kLong, "int64", 9},
                                         {c10::kInt, "int32", 3},
                                         {c10::kChar, "int8", 6},
                                         {c10::kByte, "uint8", 4},
                                         {c10::kBool, "bool", 10}}};

}  // namespace

std::string scalar_type_name(c10::ScalarType type) {
  for (const Type& known : kTypes)
    if (known.type == type) return known.name;
  TORCH_CHECK(false, "a checkpoint holds no tensors of type ", c10::toString(type));
}

std::optional<c10::ScalarType> scalar_type(const std::string& name) {
  for (const Type& known : kTypes)
    if (name == known.name) return known.type;
  return std::nullopt;
}

std::optional<c10::ScalarType> scalar_type_in_tensorflow(int data_type) {
  for (const Type& known : kTypes)
    if (data_type == known.in_tensorflow) return known.type;
  return std::nullopt;
}

}  // namespace osprey::checkpoint
