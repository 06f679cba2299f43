#pragma once
#include <bit>
#include <cstdint>

#include "kernels/arithmetic/inline.h"

/// Elementary functions of float32 without calls and branches, so that a compiler can vectorise loops over them, and
/// every CPU gives the same digits. GPUs have instructions for some of them: there e^x is within (2 + |x|) / 10^7 of
/// itself, and what does not fit becomes 0 or infinite.
namespace osprey::kernels {

/// a / b for b between 2^-126 and 2^126; above that it may be 0.
OSPREY_INLINE float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  return a * inverse;
#else
  return a / b;
#endif
}

/// e^x of numbers that are not too large: 2^n times a polynomial of what is left.
OSPREY_INLINE float exponential(float x) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
  return power;
#else
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;  // the last bits hold the nearest integer to x / ln 2
  const float n = shifted - 12582912.0f;
  const float r = x - n * 0.693359375f + n * 2.12194440e-4f;
  const float square = r * r;
  const float p =
      ((1.9875691500e-4f * r + 1.3981999507e-3f) * square + (8.3334519073e-3f * r + 4.1665795894e-2f)) * square +
      (1.6666665459e-1f * r + 5.0000001201e-1f);
  const float power = std::bit_cast<float>((std::bit_cast<int32_t>(shifted) + 127) << 23);
  return (p * square + r + 1.0f) * power;
#endif
}

/// log(1 + x) of 0 <= x <= 1, given s = x / (2 + x): 2 artanh(s), by the polynomial of s^2 that is nearest to artanh(s)
/// / s up to s = 1/3; its error is 1.5e-8 of the value.
OSPREY_INLINE float log_one_plus_from(float s) {
  const float z = s * s;
  const float p = (0.134350535f * z + 0.141167339f) * (z * z) + (0.200038487f * z + 0.333333197f);
  return 2.0f * s * (p * z + 1.0f);
}

/// log(x) of a normal x > 0: its exponent, and the series for what is left, which is within 1/sqrt(2) and sqrt(2).
OSPREY_INLINE float logarithm(float x) {
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t power = (bits - 0x3f3504f3) >> 23;
  const float m = std::bit_cast<float>(bits - (power << 23));
  const float s = quotient(m - 1.0f, m + 1.0f), z = s * s;
  float p = 1.0f / 9;
  p = p * z + 1.0f / 7;
  p = p * z + 1.0f / 5;
  p = p * z + 1.0f / 3;
  return static_cast<float>(power) * 0.693147181f + 2.0f * s * (p * z + 1.0f);
}

}  // namespace osprey::kernels
