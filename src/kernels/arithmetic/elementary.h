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

#ifdef __CUDA_ARCH__
/// 2^x
OSPREY_INLINE float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
#endif

/// e^x of numbers that are not too large: 2^n times a polynomial of what is left.
OSPREY_INLINE float exponential(float x) {
#ifdef __CUDA_ARCH__
  return power_of_two(x * 1.44269504f);
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

/// log(1 + x) / x of 0 <= x <= 1, given 1 / (1 + x). The logarithm is not analytic at -1 and far away; of powers of
/// both, six bring the error to 4.5e-8 of the value, where powers of x alone take eight. (Coefficients by Lawson's
/// iteration for the least relative error)
OSPREY_INLINE float log_one_plus_over(float x, float inverse) {
  const float p = ((-0.00197522622f * x + 0.0178912058f) * x - 0.0952941328f) * x + 0.483496517f;
  return ((0.0226300955f * inverse - 0.157053277f) * inverse + 0.650926709f) * inverse + p;
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
