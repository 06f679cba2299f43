#pragma once
#include "kernels/device/map_rows.h"

namespace osprey::kernels::device {

/// Makes a folded pixel, see osprey/kernels/fold_pixels.h.
/// Bytes moved: the map once, and 16 numbers for each pixel of the result.
template <class T>
struct FoldPixels {
  static constexpr int kChannels = 4, kWidth = 8;  ///< of a pixel; numbers of a line of a square
  const T* x;                                      ///< [B, source_height, source_width, C]
  int C;
  int64_t source_height, source_width, above, left, height, width;
  T* result;  ///< [B, height, width, 2, 2, 4]

  OSPREY_INLINE void operator()(int64_t number) const {
    const Split line(number, width), picture(line.quotient, height);
    OSPREY_UNROLL
    for (int i = 0; i < 2; ++i) {
      float values[kWidth] = {};
      const int64_t y = 2 * picture.rest + i - above;
      OSPREY_UNROLL
      for (int j = 0; j < 2; ++j) {
        const int64_t column = 2 * line.rest + j - left;
        if (y < 0 || y >= source_height || column < 0 || column >= source_width) continue;
        const T* const pixel = x + ((picture.quotient * source_height + y) * source_width + column) * C;
        OSPREY_UNROLL
        for (int c = 0; c < kChannels; ++c)
          if (c < C) values[j * kChannels + c] = load(pixel + c);
      }
      write(result + (number * 2 + i) * kWidth, values);
    }
  }
};

}  // namespace osprey::kernels::device
