#pragma once
#include <cstdint>

#include "kernels/arithmetic/curve.h"
#include "kernels/arithmetic/number.h"
#include "kernels/arithmetic/rounding.h"

/// The inner loops of batch norm over rows of channels: plain pointers, compiled for several instruction sets of which
/// the best that the machine has is taken.
///
/// depth  channels of a row
/// step   elements of a map from one row to the next, where only some of its channels take part; floats made of
///        them, or that they are made of, have no gaps
namespace osprey::kernels::cpu {

/// sum += x - center, square += (x - center)^2 over the rows.   scratch  [2 * depth]
void add_moments(const float* x, int64_t rows, int64_t depth, int64_t step, const float* center, float* scratch,
                 double* sum, double* square);
void add_moments(const Bfloat16* x, int64_t rows, int64_t depth, int64_t step, const float* center, float* scratch,
                 double* sum, double* square);
void add_moments(const Float16* x, int64_t rows, int64_t depth, int64_t step, const float* center, float* scratch,
                 double* sum, double* square);

/// y = curve((x - mean) * scale + shift)
void normalize_rows(const float* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, float* y);
void normalize_rows(const Bfloat16* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine,
                    float* y);
void normalize_rows(const Float16* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine, float* y);
void normalize_rows(const Bfloat16* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine,
                    Bfloat16* y);
void normalize_rows(const Float16* x, int64_t rows, int64_t depth, int64_t step, const ChannelAffine& affine,
                    Float16* y);

/// The same, as panels of columns (loops/product_panels.h), panel_step floats apart; missing channels become zero.
void normalize_panels(const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels,
                      int64_t panel_step);
void normalize_panels(const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels,
                      int64_t panel_step);
void normalize_panels(const Float16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels,
                      int64_t panel_step);
/// With a pair of each two rows, as pack_pairs makes them.
void normalize_pairs(const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* panels,
                     int64_t panel_step);

/// With g the gradient of y times the slope of the curve: sum += g, product += g * (x - mean).
void add_gradient_moments(const float* gradient, const float* x, int64_t rows, int64_t depth,
                          const ChannelAffine& affine, float* scratch, double* sum, double* product);
void add_gradient_moments(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth,
                          const ChannelAffine& affine, float* scratch, double* sum, double* product);
void add_gradient_moments(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth,
                          const ChannelAffine& affine, float* scratch, double* sum, double* product);

/// result = scale * g + slope * (x - mean) + offset.   slope, offset  [depth]
void gradient_rows(const float* gradient, const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine,
                   const float* slope, const float* offset, float* result);
void gradient_rows(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth,
                   const ChannelAffine& affine, const float* slope, const float* offset, Bfloat16* result);
void gradient_rows(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth, const ChannelAffine& affine,
                   const float* slope, const float* offset, Float16* result);

/// result = scale * gradient + slope * (x - mean) + offset, as floats or rounded.   mean, scale, slope, offset  [depth]
void add_through_statistics(const float* gradient, const float* x, int64_t rows, int64_t depth, int64_t step,
                            const float* mean, const float* scale, const float* slope, const float* offset,
                            float* result);
void add_through_statistics(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth, int64_t step,
                            const float* mean, const float* scale, const float* slope, const float* offset,
                            float* result);
void add_through_statistics(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth, int64_t step,
                            const float* mean, const float* scale, const float* slope, const float* offset,
                            float* result);
void add_through_statistics(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth, int64_t step,
                            const float* mean, const float* scale, const float* slope, const float* offset,
                            Bfloat16* result);
void add_through_statistics(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth, int64_t step,
                            const float* mean, const float* scale, const float* slope, const float* offset,
                            Float16* result);

/// y = (x - mean) * scale + shift + addend, clamped as the epilogue says.
void add_normalized_rows(const float* x, const float* addend, int64_t rows, int64_t depth, const ChannelAffine& affine,
                         float* y);
void add_normalized_rows(const Bfloat16* x, const Bfloat16* addend, int64_t rows, int64_t depth,
                         const ChannelAffine& affine, Bfloat16* y);
void add_normalized_rows(const Float16* x, const Float16* addend, int64_t rows, int64_t depth,
                         const ChannelAffine& affine, Float16* y);

/// With g the gradient of that y where it has not been clamped: result = g, sum += g, product += g * (x - mean).
/// gradient  floats, or of the numbers of the map
/// again     the rest of the gradient; null: there is none
/// result    may be where the gradient is
void take_back_sum_rows(const float* gradient, const float* again, const float* y, const float* x, int64_t rows,
                        int64_t depth, const ChannelAffine& affine, float* scratch, double* sum, double* product,
                        float* result);
void take_back_sum_rows(const Bfloat16* gradient, const Bfloat16* again, const Bfloat16* y, const Bfloat16* x,
                        int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch, double* sum,
                        double* product, Bfloat16* result);
void take_back_sum_rows(const Float16* gradient, const Float16* again, const Float16* y, const Float16* x, int64_t rows,
                        int64_t depth, const ChannelAffine& affine, float* scratch, double* sum, double* product,
                        Float16* result);
void take_back_sum_rows(const float* gradient, const Bfloat16* again, const Bfloat16* y, const Bfloat16* x,
                        int64_t rows, int64_t depth, const ChannelAffine& affine, float* scratch, double* sum,
                        double* product, Bfloat16* result);
void take_back_sum_rows(const float* gradient, const Float16* again, const Float16* y, const Float16* x, int64_t rows,
                        int64_t depth, const ChannelAffine& affine, float* scratch, double* sum, double* product,
                        Float16* result);

/// With g the gradient times the slope of the curve: sum += g, product += g * (x - mean), result = scale * g.
/// gradient  floats, or of the numbers of the map
/// result    may be where the gradient is
void take_back_rows(const float* gradient, const float* x, int64_t rows, int64_t depth, int64_t step,
                    const ChannelAffine& affine, float* scratch, double* sum, double* product, float* result);
void take_back_rows(const float* gradient, const Bfloat16* x, int64_t rows, int64_t depth, int64_t step,
                    const ChannelAffine& affine, float* scratch, double* sum, double* product, Bfloat16* result);
void take_back_rows(const float* gradient, const Float16* x, int64_t rows, int64_t depth, int64_t step,
                    const ChannelAffine& affine, float* scratch, double* sum, double* product, Float16* result);
void take_back_rows(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth, int64_t step,
                    const ChannelAffine& affine, float* scratch, double* sum, double* product, Bfloat16* result);
void take_back_rows(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth, int64_t step,
                    const ChannelAffine& affine, float* scratch, double* sum, double* product, Float16* result);

/// y = curve((x - mean) * scale + shift), rounded
void round_rows(const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const Rounding& rounding,
                float* y);
void round_rows(const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const Rounding& rounding,
                Bfloat16* y);
void round_rows(const Float16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, const Rounding& rounding,
                Float16* y);

/// take_back_rows of what round_rows makes.
void take_back_rounded_rows(const float* gradient, const float* x, int64_t rows, int64_t depth,
                            const ChannelAffine& affine, const Rounding& rounding, float* scratch, double* sum,
                            double* product, float* result);
void take_back_rounded_rows(const Bfloat16* gradient, const Bfloat16* x, int64_t rows, int64_t depth,
                            const ChannelAffine& affine, const Rounding& rounding, float* scratch, double* sum,
                            double* product, Bfloat16* result);
void take_back_rounded_rows(const Float16* gradient, const Float16* x, int64_t rows, int64_t depth,
                            const ChannelAffine& affine, const Rounding& rounding, float* scratch, double* sum,
                            double* product, Float16* result);

/// The least and the largest number of each channel, [depth], become those of themselves and of what normalize_rows
/// makes.
void widen_ranges(const float* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* least,
                  float* largest);
void widen_ranges(const Bfloat16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* least,
                  float* largest);
void widen_ranges(const Float16* x, int64_t rows, int64_t depth, const ChannelAffine& affine, float* least,
                  float* largest);

}  // namespace osprey::kernels::cpu
