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

/// A line of results: the largest value of each channel that a window sees, and the number of the tap that sees it: of
/// equal ones the first, or the last that is no number.
/// first    lines of the map that the windows see, [lines, pixels, depth]
/// tap      line of the windows, from 0, that lies on the first of them
/// y, taps  [windows, depth]
void max_pool_line(const PoolLine& line, const float* first, int64_t lines, int64_t tap, float* y, uint8_t* taps);
void max_pool_line(const PoolLine& line, const Bfloat16* first, int64_t lines, int64_t tap, Bfloat16* y, uint8_t* taps);
void max_pool_line(const PoolLine& line, const Float16* first, int64_t lines, int64_t tap, Float16* y, uint8_t* taps);

/// A line of the map's gradient: of each place the sum of what windows give it that have their largest value there.
/// first, taps  gradients and taps of some lines of results, [lines, windows, depth]
/// tap          line of taps by which the first of them sees the line of the map; each further one sees it by `stride`
///              lines less
/// result       [pixels, depth]
void max_pool_line_back(const PoolLine& line, const float* first, const uint8_t* taps, int64_t lines, int64_t tap,
                        float* result);
void max_pool_line_back(const PoolLine& line, const Bfloat16* first, const uint8_t* taps, int64_t lines, int64_t tap,
                        Bfloat16* result);
void max_pool_line_back(const PoolLine& line, const Float16* first, const uint8_t* taps, int64_t lines, int64_t tap,
                        Float16* result);

}  // namespace osprey::kernels::cpu
