#include "kernels/cpu/product_arithmetic.h"

#include "osprey/base/cpu.h"

namespace osprey::kernels::cpu {

Arithmetic arithmetic_for(at::ScalarType maps) {
  if (maps != at::kBFloat16 || !has_bfloat16_arithmetic()) return Arithmetic::kFloats;
  return has_bfloat16_tiles() ? Arithmetic::kAmx : Arithmetic::kPairs;
}

}  // namespace osprey::kernels::cpu
