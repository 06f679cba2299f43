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
    const Seeing lines(window, place.y + window.above, window.lines),
        pixels(window, place.x + window.left, window.pixels);
    float sum[kWidth] = {};
    for (int line = lines.first; line < lines.end; line += kAhead)
      for (int pixel = pixels.first; pixel < pixels.end; pixel += kAhead) {
        LargestTaps<kWidth> chosen[kAhead * kAhead];
        Vector<T, kWidth> values[kAhead * kAhead];
        OSPREY_UNROLL
        for (int i = 0; i < kAhead * kAhead; ++i) {
          if (line + i / kAhead >= lines.end || pixel + i % kAhead >= pixels.end) continue;
          const int64_t at = map + ((line + i / kAhead) * window.pixels + pixel + i % kAhead) * window.depth;
          chosen[i] = *reinterpret_cast<const LargestTaps<kWidth>*>(taps + at);
          values[i] = read<kWidth>(gradient + at);
        }
        OSPREY_UNROLL
        for (int i = 0; i < kAhead * kAhead; ++i) {
          if (line + i / kAhead >= lines.end || pixel + i % kAhead >= pixels.end) continue;
          const int tap = (lines.distance - (line + i / kAhead) * window.stride) * window.kernel + pixels.distance -
                          (pixel + i % kAhead) * window.stride;
          OSPREY_UNROLL
          for (int k = 0; k < kWidth; ++k) sum[k] += chosen[i].of[k] == tap ? values[i][k] : 0.0f;
        }
      }
    write(result + number * kWidth, sum);
  }

 private:
  static constexpr int kAhead = 2;  ///< windows of a side whose gradients are on their way together
  /// The windows along a side that see a place.
  struct Seeing {
    int distance;    ///< of the place from where the first window of all begins
    int first, end;  ///< windows
    OSPREY_INLINE Seeing(const PoolWindow& window, int from_begin, int64_t windows)
        : distance(from_begin),
          first(from_begin < window.kernel ? 0 : (from_begin - window.kernel) / window.stride + 1),
          end(from_begin / window.stride + 1) {
      if (end > windows) end = static_cast<int>(windows);
    }
  };
};

}  // namespace osprey::kernels::device
