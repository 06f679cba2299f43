#include "checkpoint/scalar_types.h"

#include <c10/util/Exception.h>

#include <array>
#include <utility>

namespace osprey::checkpoint {
namespace {

constexpr std::array<std::pair<c10::ScalarType, const char*>, 9> kTypes = {{{c10::kFloat, "float32"},
                                                                            {c10::kDouble, "float64"},
                                                                            {c10::kHalf, "float16"},
                                                                            {c10::kBFloat16, "bfloat16"},
                                                                            {c10::kLong, "int64"},
                                                                            {c10::kInt, "int32"},
                                                                            {c10::kChar, "int8"},
                                                                            {c10::kByte, "uint8"},
                                                                            {c10::kBool, "bool"}}};

}  // namespace

std::string scalar_type_name(c10::ScalarType type) {
  for (const auto& [known, name] : kTypes)
    if (known == type) return name;
  TORCH_CHECK(false, "a checkpoint holds no tensors of type ", c10::toString(type));
}

std::optional<c10::ScalarType> scalar_type(const std::string& name) {
  for (const auto& [type, known] : kTypes)
    if (name == known) return type;
  return std::nullopt;
}

}  // namespace osprey::checkpoint
