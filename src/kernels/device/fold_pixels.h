#pragma once
#include "kernels/device/map_rows.h"

namespace osprey::kernels::device {

/// Makes a line of a folded pixel, see osprey/kernels/fold_pixels.h: half of it, so that threads side by side write
/// side by side. Bytes moved: the map once, and 16 numbers for each pixel of the result.
template <class T>
struct FoldPixels {
  static constexpr int kChannels = 4, kWidth = 8;  ///< of a pixel; numbers of a line of a square
  const T* x;                                      ///< [B, source_height, source_width, C]
  int C;
  int64_t source_height, source_width, above, left;
  Divisor height, width;
  T* result;  ///< [B, height, width, 2, 2, 4]

  OSPREY_INLINE void operator()(int64_t number) const {
    const Split place(number >> 1, width), picture(place.quotient, height);
    const int64_t y = 2 * picture.rest + (number & 1) - above, column = 2 * place.rest - left;
    const T* const pixels = x + ((picture.quotient * source_height + y) * source_width + column) * C;
    float values[kWidth] = {};
    OSPREY_UNROLL
    for (int j = 0; j < 2; ++j) {
      if (y < 0 || y >= source_height || column + j < 0 || column + j >= source_width) continue;
      OSPREY_UNROLL
      for (int c = 0; c < kChannels; ++c)
        if (c < C) values[j * kChannels + c] = load(pixels + j * C + c);
    }
    write(result + number * kWidth, values);
  }
};

}  // namespace osprey::kernels::device
