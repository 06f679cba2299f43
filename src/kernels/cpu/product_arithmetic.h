#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <type_traits>

#include "kernels/with_elements.h"

/// What products of numbers of maps with weights, or with each other, are made of.
namespace osprey::kernels::cpu {

/// How products are made: of floats, with a multiplication each or with fewer (loops/inner_products.h), or of what is
/// rounded to bfloat16: of pairs of such numbers (loops/factors.h), or of tiles of them (loops/amx_products.h). Sums
/// are floats.
enum class Arithmetic { kFloats, kInnerProducts, kPairs, kAmx };

constexpr bool rounds(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kPairs || arithmetic == Arithmetic::kAmx;
}

/// The fastest for maps of this type: rounded are only numbers that are multiplied with bfloat16 ones, where the
/// machine has instructions for these.
Arithmetic arithmetic_for(at::ScalarType maps);

/// The same, for a matrix that is multiplied, or is a sum of products: kFloats instead of kInnerProducts, unless it has
/// enough rows and columns for what these begin and end with. (Sums of so few steps would be less exact, too. With
/// fewer than some 30 places, of which nothing is known here, they take up to a fifth longer.)
Arithmetic arithmetic_of_matrix(Arithmetic arithmetic, int64_t rows, int64_t columns);

/// Calls `work` with null pointers to a number of such maps and to what is multiplied: bfloat16 numbers or floats.
template <class Work>
void with_factors(at::ScalarType maps, const Work& work) {
  with_elements(maps, [&](auto* type) {
    if constexpr (std::is_same_v<decltype(type), Bfloat16*>)
      if (rounds(arithmetic_for(maps))) return work(type, type);
    work(type, static_cast<float*>(nullptr));
  });
}

}  // namespace osprey::kernels::cpu
