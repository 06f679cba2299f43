#pragma once
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <vector>

#include "osprey/kernels/code_scales.h"

/// Scales as an argument of an operator: those of y, x, height and width.
namespace osprey::kernels {

inline std::vector<double> numbers(const CodeScales& scales) {
  return {scales.y, scales.x, scales.height, scales.width};
}

/// throws  c10::Error unless there are four
inline CodeScales code_scales(c10::ArrayRef<double> numbers) {
  TORCH_CHECK(numbers.size() == 4, "expected 4 scales, got ", numbers.size());
  const auto scale = [&](size_t k) { return static_cast<float>(numbers[k]); };
  return {scale(0), scale(1), scale(2), scale(3)};
}

}  // namespace osprey::kernels
