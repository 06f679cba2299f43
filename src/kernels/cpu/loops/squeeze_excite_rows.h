#pragma once
#include <cstdint>

#include "kernels/arithmetic/curve.h"
#include "kernels/arithmetic/number.h"

/// The inner loops of squeeze and excitation over rows of channels of one picture; see loops/batch_norm_rows.h.
///
/// value = curve((x - mean) * scale + shift)
/// depth  channels of a row
/// gates  [depth]
namespace osprey::kernels::cpu {

/// sum += value over the rows.   scratch  [depth]
void add_values(const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch, double* sum);
void add_values(const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch,
                double* sum);
void add_values(const Float16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch,
                double* sum);

/// y = value * gate
void gate_rows(const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const float* gates, float* y);
void gate_rows(const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const float* gates,
               Bfloat16* y);
void gate_rows(const Float16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const float* gates,
               Float16* y);

/// With `gradient` that of y: sum += gradient * value, result = gradient * gate.   scratch  [depth]
void take_back_gate_rows(const float* gradient, const float* x, int64_t rows, int64_t depth,
                         const ChannelAffine& affine, const float* gates, float* scratch, double* sum, float* result);
void take_back_gate_rows(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth,
                         const ChannelAffine& affine, const float* gates, float* scratch, double* sum,
                         Bfloat16* result);
void take_back_gate_rows(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth,
                         const ChannelAffine& affine, const float* gates, float* scratch, double* sum, Float16* result);

/// With g = gradient + offset, that of the value, times the slope of the curve: sum += g, product += g * (x - mean),
/// result = scale * g.   offset  [depth]   scratch  [2 * depth]
void take_back_offset_rows(const float* gradient, const float* offset, const float* x, int64_t rows, int64_t depth,
                           const ChannelAffine& affine, float* scratch, double* sum, double* product, float* result);
void take_back_offset_rows(const Bfloat16* gradient, const float* offset, const Bfloat16* x, int64_t rows,
                           int64_t depth, const ChannelAffine& affine, float* scratch, double* sum, double* product,
                           Bfloat16* result);
void take_back_offset_rows(const Float16* gradient, const float* offset, const Float16* x, int64_t rows, int64_t depth,
                           const ChannelAffine& affine, float* scratch, double* sum, double* product, Float16* result);

}  // namespace osprey::kernels::cpu
