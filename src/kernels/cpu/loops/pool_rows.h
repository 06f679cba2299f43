#pragma once
#include <cstdint>

#include "kernels/arithmetic/number.h"

/// The inner loops of pooling over lines of maps; see loops/batch_norm_rows.h.
namespace osprey::kernels::cpu {

/// How square windows move along a line.
struct PoolLine {
  int64_t depth;
  int64_t pixels, windows;  ///< pixels of a line of the map, and windows that see it: those of a line of the result
  int64_t kernel, stride;
  int64_t before;  ///< pixels of padding that the first window sees
};

/// A line of results: the largest values of each channel that windows see of some lines of the map, and which tap sees
/// them: the first of the largest ones, or the last that is no number.
/// lines   of the map, from `first` on, which tap line `tap` sees
/// y, taps [windows, depth]
void largest_of_windows(const PoolLine& line, const float* first, int64_t lines, int64_t tap, float* y, uint8_t* taps);
void largest_of_windows(const PoolLine& line, const Bfloat16* first, int64_t lines, int64_t tap, Bfloat16* y,
                        uint8_t* taps);
void largest_of_windows(const PoolLine& line, const Float16* first, int64_t lines, int64_t tap, Float16* y,
                        uint8_t* taps);

/// A line of the map's gradient: of each place the sum of what windows give it that have their largest value there.
/// first, taps  gradients and taps of some lines of results, [lines, windows, depth]
/// tap          line of taps by which the first of them sees the line of the map; each further one sees it by `stride`
///              lines less
/// result       [pixels, depth]
void gradients_of_largest(const PoolLine& line, const float* first, const uint8_t* taps, int64_t lines, int64_t tap,
                          float* result);
void gradients_of_largest(const PoolLine& line, const Bfloat16* first, const uint8_t* taps, int64_t lines, int64_t tap,
                          Bfloat16* result);
void gradients_of_largest(const PoolLine& line, const Float16* first, const uint8_t* taps, int64_t lines, int64_t tap,
                          Float16* result);

}  // namespace osprey::kernels::cpu
