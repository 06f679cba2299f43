#pragma once
#include <cstdint>

/// The inner loops of batch norm over rows of channels: plain pointers, compiled for several instruction sets of which
/// the best that the machine has is taken. A float16 of the brain kind is passed as its bits.
namespace osprey::kernels::cpu {

enum class Curve { kClamp, kSwish, kHardSwish };

/// Per channel, all [depth].
struct ChannelAffine {
  const float* mean;
  const float* scale;  ///< gamma * inverse deviation
  const float* shift;  ///< beta
  float low, high;     ///< of the clamp
  Curve curve;         ///< that (x - mean) * scale + shift is put through
};

/// sum += x - center, square += (x - center)^2 over the rows.   scratch  [2 * depth]
void add_moments(const float* x, int64_t rows, int64_t depth, const float* center, float* scratch, double* sum,
                 double* square);
void add_moments(const uint16_t* x, int64_t rows, int64_t depth, const float* center, float* scratch, double* sum,
                 double* square);

/// y = curve((x - mean) * scale + shift)
void normalize_rows(const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* y);
void normalize_rows(const uint16_t* x, int64_t rows, int64_t depth, const ChannelAffine& affine, uint16_t* y);

/// With g the gradient of y times the slope of the curve: sum += g, product += g * (x - mean).
void add_gradient_moments(const float* gradient, const float* x, int64_t rows, int64_t depth,
                          const ChannelAffine& affine, float* scratch, double* sum, double* product);
void add_gradient_moments(const uint16_t* gradient, const uint16_t* x, int64_t rows, int64_t depth,
                          const ChannelAffine& affine, float* scratch, double* sum, double* product);

/// result = scale * g + slope * (x - mean) + offset.   slope, offset  [depth]
void gradient_rows(const float* gradient, const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine,
                   const float* slope, const float* offset, float* result);
void gradient_rows(const uint16_t* gradient, const uint16_t* x, int64_t rows, int64_t depth,
                   const ChannelAffine& affine, const float* slope, const float* offset, uint16_t* result);

}  // namespace osprey::kernels::cpu
