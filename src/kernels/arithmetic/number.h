#pragma once
#include <bit>
#include <cstdint>

#include "kernels/arithmetic/inline.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

/// Numbers of two bytes, for memory only: arithmetic is in float32. A GPU has instructions that convert them.
namespace osprey::kernels {

/// The upper half of a float32.
struct Bfloat16 {
  uint16_t bits;
};
/// IEEE 754 binary16.
struct Float16 {
  uint16_t bits;
};

OSPREY_INLINE float load(const float* at) { return *at; }
OSPREY_INLINE void store(float* at, float value) { *at = value; }

OSPREY_INLINE float load(const uint8_t* at) { return static_cast<float>(*at); }

OSPREY_INLINE float load(const Bfloat16* at) { return std::bit_cast<float>(static_cast<uint32_t>(at->bits) << 16); }
/// Rounds to nearest, ties to even.
OSPREY_INLINE void store(Bfloat16* at, float value) {
#ifdef __CUDA_ARCH__
  at->bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  at->bits = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
#endif
}

OSPREY_INLINE float load(const Float16* at) {
#ifdef __CUDA_ARCH__
  return __half2float(__ushort_as_half(at->bits));
#else
  const uint32_t sign = static_cast<uint32_t>(at->bits & 0x8000) << 16, rest = at->bits & 0x7fff;
  // The exponent is moved to where float32 has it by a multiplication, which puts denormal numbers right, too.
  const float small = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const uint32_t size = rest >= 0x7c00 ? 0x7f800000 | (rest & 0x3ff) << 13 : std::bit_cast<uint32_t>(small);
  return std::bit_cast<float>(sign | size);
#endif
}
/// Rounds to nearest, ties to even; what is too large becomes infinite.
OSPREY_INLINE void store(Float16* at, float value) {
#ifdef __CUDA_ARCH__
  at->bits = __half_as_ushort(__float2half_rn(value));
#else
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  uint32_t result;
  if (size > 0x7f800000) {
    result = 0x7e00;
  } else if (size >= 0x477ff000) {  // 65520, from where on the nearest number would be 2^16
    result = 0x7c00;
  } else if (size < 0x38800000) {  // below 2^-14: the last bits of a sum with 0.5 are the denormal number
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  } else {
    result = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
  }
  at->bits = static_cast<uint16_t>(sign | result);
#endif
}

}  // namespace osprey::kernels
