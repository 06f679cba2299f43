#include "kernels/cpu/product_arithmetic.h"

#include <algorithm>

#include "osprey/base/cpu.h"

namespace osprey::kernels::cpu {

Arithmetic arithmetic_for(at::ScalarType maps) {
  if (maps != at::kBFloat16 || !has_bfloat16_arithmetic())
    return adds_beside_products() ? Arithmetic::kInnerProducts : Arithmetic::kFloats;
  return has_bfloat16_tiles() ? Arithmetic::kAmx : Arithmetic::kPairs;
}

Arithmetic arithmetic_of_matrix(Arithmetic arithmetic, int64_t rows, int64_t columns) {
  constexpr int64_t kLeast = 128;
  return arithmetic == Arithmetic::kInnerProducts && std::min(rows, columns) < kLeast ? Arithmetic::kFloats
                                                                                      : arithmetic;
}

}  // namespace osprey::kernels::cpu
