#pragma once
#include <cstdint>

#include "kernels/arithmetic/curve.h"
#include "kernels/arithmetic/number.h"

/// The inner loops of depthwise convolutions over pixels of channels: plain pointers, compiled for several instruction
/// sets of which the best that the machine has is taken.
namespace osprey::kernels::cpu {

/// What a row of pixels sees through the taps of a kernel.
struct SeenPixels {
  const float* const* lines;  ///< what each row of taps sees
  int64_t rows, columns;      ///< taps
  int64_t first;              ///< floats from the begin of a line to what the first pixel sees through the first tap
  int64_t stride;             ///< pixels between what one pixel sees through a tap and the next
  int64_t depth;              ///< channels of a pixel
};

constexpr int64_t kLanes = 16;  ///< channels whose taps lie together, as many as are computed together at most

/// Weights or sums of taps, [channels / kLanes, taps, kLanes]: what is needed together lies together. The last lanes
/// may belong to no channel. The steps are floats from one tap to the next, or from some channels to the next.
template <class T>
struct OfTaps {
  T* first;
  int64_t row_step, column_step, lanes_step;
};

/// Pixels are computed several at a time: behind the last one there have to be so many more, whose result is written
/// and says nothing, and what they would see.
constexpr int64_t kMorePixels = 3;

constexpr int64_t kMostTapsAtOnce = 3;  ///< of a side, whose weights stay in registers while the pixels pass by

/// result[p] = sum over taps of weights[tap] * what p sees there, for each channel.
/// step  floats from one pixel of the result to the next
void weighted_sums(const SeenPixels& seen, const OfTaps<const float>& weights, int64_t pixels, float* result,
                   int64_t step);

/// Pixels of a map that are being made, and the moments of its channels.
template <class T>
struct PixelsWithMoments {
  T* y;
  int64_t step;          ///< numbers from one pixel to the next
  float* center;         ///< [depth]
  bool begins;           ///< center becomes what the first pixel is
  double *sum, *square;  ///< [depth], to which y - center and its square are added, of y as it has been rounded
};

/// As weighted_sums, but rounded to numbers of a map, whose moments are added to. Nothing behind the last pixel is read
/// or written.
///
/// seen  at most kMostTapsAtOnce rows and columns of taps
void sums_with_moments(const SeenPixels& seen, const OfTaps<const float>& weights, const PixelsWithMoments<float>& made,
                       int64_t pixels);
void sums_with_moments(const SeenPixels& seen, const OfTaps<const float>& weights,
                       const PixelsWithMoments<Bfloat16>& made, int64_t pixels);
void sums_with_moments(const SeenPixels& seen, const OfTaps<const float>& weights,
                       const PixelsWithMoments<Float16>& made, int64_t pixels);

/// As weighted_sums, and sums[tap] += sum over pixels of own[p] * what p sees there.
/// own   [kMorePixels more than pixels], the last of them zeros
/// step  floats from one pixel of the result, or of `own`, to the next
void weighted_sums_and_products(const SeenPixels& seen, const OfTaps<const float>& weights, const float* own,
                                int64_t pixels, float* result, int64_t step, const OfTaps<float>& sums);

/// Pixels of a map that a batch norm and a clamp normalise as they are read, and the gradient of these pixels.
template <class T>
struct NormalizedPixels {
  const T* x;
  T* gradient;
  int64_t step;           ///< numbers from one pixel to the next, of either
  ChannelAffine affine;   ///< the curve of its epilogue is a clamp
  double *sum, *product;  ///< [depth], to which g and g * (x - mean) are added, as take_back_rows does
};

/// The same where `own` is clamp((x - mean) * scale + shift) and the result is taken back through that at once:
/// gradient = scale * g, where g is the result, or zero where own has been clamped. Pixels that nothing is seen by get
/// zero and add nothing. Nothing behind the last pixel is read or written.
/// seen  at most kMostTapsAtOnce rows and columns of taps, `stride` 1
void sums_and_products_taken_back(const SeenPixels& seen, const OfTaps<const float>& weights,
                                  const NormalizedPixels<float>& own, int64_t pixels, const OfTaps<float>& sums);
void sums_and_products_taken_back(const SeenPixels& seen, const OfTaps<const float>& weights,
                                  const NormalizedPixels<Bfloat16>& own, int64_t pixels, const OfTaps<float>& sums);
void sums_and_products_taken_back(const SeenPixels& seen, const OfTaps<const float>& weights,
                                  const NormalizedPixels<Float16>& own, int64_t pixels, const OfTaps<float>& sums);

}  // namespace osprey::kernels::cpu
