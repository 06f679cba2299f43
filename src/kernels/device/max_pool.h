#pragma once
#include "kernels/device/map_rows.h"

/// The largest values that square windows see, over maps of channels_last. A thread has some neighbouring channels of a
/// place. Bytes moved: the maps once each (windows overlap in the cache), and a byte for each result.
namespace osprey::kernels::device {

/// How a square window moves over a map.
struct PoolWindow {
  int64_t height, width;  ///< of the map
  int64_t lines, pixels;  ///< of the result
  int64_t depth;
  int kernel, stride, above, left;
};

/// Which tap of each window has its largest value, of neighbouring channels.
template <int kWidth>
struct alignas(kWidth) LargestTaps {
  uint8_t of[kWidth];
};

/// Where neighbouring channels of a place lie.
template <int kWidth>
struct PlaceOfMap {
  int64_t picture, channel;
  int y, x;
  OSPREY_INLINE PlaceOfMap(int64_t number, int64_t height, int64_t width, int64_t depth) {
    const Split place(number, depth / kWidth), line(place.quotient, width), map(line.quotient, height);
    picture = map.quotient;
    channel = place.rest * kWidth;
    y = static_cast<int>(map.rest);
    x = static_cast<int>(line.rest);
  }
};

template <class T, int kWidth>
struct MaxPool {
  PoolWindow window;
  const T* x;     ///< [B, height, width, depth]
  T* y;           ///< [B, lines, pixels, depth]
  uint8_t* taps;  ///< the same

  OSPREY_INLINE void operator()(int64_t number) const {
    const PlaceOfMap<kWidth> place(number, window.lines, window.pixels, window.depth);
    const T* const map = x + place.picture * window.height * window.width * window.depth + place.channel;
    const int top = place.y * window.stride - window.above, left = place.x * window.stride - window.left;
    float largest[kWidth] = {};
    LargestTaps<kWidth> chosen = {};
    bool first = true;
    for (int i = 0; i < window.kernel; ++i) {
      if (top + i < 0 || top + i >= window.height) continue;
      for (int j = 0; j < window.kernel; ++j) {
        if (left + j < 0 || left + j >= window.width) continue;
        const auto values = read<kWidth>(map + ((top + i) * window.width + left + j) * window.depth);
        OSPREY_UNROLL
        for (int k = 0; k < kWidth; ++k) {
          const float value = values[k];
          if (!first && !(value > largest[k]) && value == value) continue;
          largest[k] = value;
          chosen.of[k] = static_cast<uint8_t>(i * window.kernel + j);
        }
        first = false;
      }
    }
    write(y + number * kWidth, largest);
    *reinterpret_cast<LargestTaps<kWidth>*>(taps + number * kWidth) = chosen;
  }
};

/// The gradient of the map: of each place what the windows give it whose largest value it is.
template <class T, int kWidth>
struct MaxPoolGradient {
  PoolWindow window;
  const T* gradient;    ///< [B, lines, pixels, depth]
  const uint8_t* taps;  ///< the same
  T* result;            ///< [B, height, width, depth]

  OSPREY_INLINE void operator()(int64_t number) const {
    const PlaceOfMap<kWidth> place(number, window.height, window.width, window.depth);
    const int64_t map = place.picture * window.lines * window.pixels * window.depth + place.channel;
    const int down = place.y + window.above, right = place.x + window.left;
    float sum[kWidth] = {};
    for (int line = first_window(down); line <= down / window.stride && line < window.lines; ++line)
      for (int pixel = first_window(right); pixel <= right / window.stride && pixel < window.pixels; ++pixel) {
        const int64_t at = map + (line * window.pixels + pixel) * window.depth;
        const int tap = (down - line * window.stride) * window.kernel + right - pixel * window.stride;
        const auto chosen = *reinterpret_cast<const LargestTaps<kWidth>*>(taps + at);
        const auto values = read<kWidth>(gradient + at);
        OSPREY_UNROLL
        for (int k = 0; k < kWidth; ++k) sum[k] += chosen.of[k] == tap ? values[k] : 0.0f;
      }
    write(result + number * kWidth, sum);
  }

 private:
  /// The first window that sees a place so far from where the first of all begins.
  OSPREY_INLINE int first_window(int distance) const {
    return distance < window.kernel ? 0 : (distance - window.kernel) / window.stride + 1;
  }
};

}  // namespace osprey::kernels::device
