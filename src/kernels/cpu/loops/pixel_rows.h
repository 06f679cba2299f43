#pragma once
#include <cstdint>

#include "kernels/arithmetic/number.h"

/// Pixels of three channels into what a network takes, compiled for several instruction sets of which the best that the
/// machine has is taken.
namespace osprey::kernels::cpu {

/// to = from * scale + offset.      from, to  [pixels, 3]      scale, offset  [3]
void scale_pixels(const uint8_t* from, int64_t pixels, const float* scale, const float* offset, float* to);
void scale_pixels(const uint8_t* from, int64_t pixels, const float* scale, const float* offset, Bfloat16* to);
void scale_pixels(const uint8_t* from, int64_t pixels, const float* scale, const float* offset, Float16* to);
void scale_pixels(const float* from, int64_t pixels, const float* scale, const float* offset, float* to);
void scale_pixels(const float* from, int64_t pixels, const float* scale, const float* offset, Bfloat16* to);
void scale_pixels(const float* from, int64_t pixels, const float* scale, const float* offset, Float16* to);

}  // namespace osprey::kernels::cpu
