#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/arithmetic/number.h"

namespace osprey::kernels {

/// Whether maps may consist of such numbers.
inline bool is_element(at::ScalarType type) { return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf; }

/// Calls `work` with a null pointer of the type that the numbers have in memory; not at all where `is_element` is
/// false.
template <class Work>
void with_elements(at::ScalarType type, Work work) {
  if (type == at::kFloat) work(static_cast<float*>(nullptr));
  if (type == at::kBFloat16) work(static_cast<Bfloat16*>(nullptr));
  if (type == at::kHalf) work(static_cast<Float16*>(nullptr));
}

}  // namespace osprey::kernels
