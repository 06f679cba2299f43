#pragma once
#include "kernels/device/map_rows.h"

/// The largest values that square windows see, over maps of channels_last. A thread has some neighbouring channels of a
/// place, or of a square of four. Bytes moved: the maps once each (windows overlap in the cache), and a byte for each
/// result.
namespace osprey::kernels::device {

/// How a square window moves over a map.
struct PoolWindow {
  int height, width;  ///< of the map
  int lines, pixels;  ///< of the result
  int depth;
  int kernel, stride, above, left;
};

/// Which tap of each window has its largest value, of neighbouring channels.
template <int kWidth>
struct alignas(kWidth) LargestTaps {
  uint8_t of[kWidth];
};

template <int kWidth>
OSPREY_INLINE LargestTaps<kWidth> read_taps(const uint8_t* at) {
  expect_border<LargestTaps<kWidth>>(at);
  return *reinterpret_cast<const LargestTaps<kWidth>*>(at);
}

/// Where neighbouring channels of a place lie.
template <int kWidth>
struct PlaceOfMap {
  int64_t picture, channel;
  int y, x;
  OSPREY_INLINE PlaceOfMap(int64_t number, const Divisor& height, const Divisor& width, const Divisor& vectors) {
    const Split place(number, vectors), line(place.quotient, width), map(line.quotient, height);
    picture = map.quotient;
    channel = place.rest * kWidth;
    y = static_cast<int>(map.rest);
    x = static_cast<int>(line.rest);
  }
};

/// Whether a place is one of a map.
OSPREY_INLINE bool has_place(int y, int x, int height, int width) {
  return y >= 0 && y < height && x >= 0 && x < width;
}

/// The values of a window that have been seen, one by one: the first of the largest ones, or the last that is no
/// number.
template <int kWidth>
struct Largest {
  float values[kWidth] = {};
  LargestTaps<kWidth> taps = {};
  bool none = true;

  template <class Values>
  OSPREY_INLINE void see(const Values& seen, int tap) {
    OSPREY_UNROLL
    for (int k = 0; k < kWidth; ++k) {
      const float value = seen[k];
      const bool taken = none || value > values[k] || value != value;
      values[k] = taken ? value : values[k];
      taps.of[k] = taken ? static_cast<uint8_t>(tap) : taps.of[k];
    }
    none = false;
  }
};

/// kKernel  of the window; 0: it is known only when the kernel runs. Of one that is known before, all that it sees is
///          on its way at a time.
template <class T, int kWidth, int kKernel>
struct MaxPool {
  PoolWindow window;
  Divisor lines, pixels, vectors;
  const T* x;     ///< [B, height, width, depth]
  T* y;           ///< [B, lines, pixels, depth]
  uint8_t* taps;  ///< the same

  OSPREY_INLINE void operator()(int64_t number) const {
    const PlaceOfMap<kWidth> place(number, lines, pixels, vectors);
    const T* const map = x + place.picture * window.height * window.width * window.depth + place.channel;
    const int top = place.y * window.stride - window.above, left = place.x * window.stride - window.left;
    const Largest<kWidth> largest = look(map, top, left);
    write(y + number * kWidth, largest.values);
    *reinterpret_cast<LargestTaps<kWidth>*>(taps + number * kWidth) = largest.taps;
  }

 private:
  OSPREY_INLINE bool has(int i, int j) const { return has_place(i, j, window.height, window.width); }
  OSPREY_INLINE Vector<T, kWidth> value(const T* map, int i, int j) const {
    return read<kWidth>(map + static_cast<int64_t>(i * window.width + j) * window.depth);
  }

  OSPREY_INLINE Largest<kWidth> look(const T* map, int top, int left) const {
    if constexpr (kKernel > 0) {
      const bool whole = has(top, left) && has(top + kKernel - 1, left + kKernel - 1);
      return whole ? look_at_once<true>(map, top, left) : look_at_once<false>(map, top, left);
    }
    Largest<kWidth> largest;
    for (int i = 0; i < window.kernel; ++i)
      for (int j = 0; j < window.kernel; ++j)
        if (has(top + i, left + j)) largest.see(value(map, top + i, left + j), i * window.kernel + j);
    return largest;
  }

  template <bool kWhole>
  OSPREY_INLINE Largest<kWidth> look_at_once(const T* map, int top, int left) const {
    constexpr int kTaps = kKernel * kKernel;
    Vector<T, kWidth> seen[kTaps];
    OSPREY_UNROLL
    for (int tap = 0; tap < kTaps; ++tap)
      if (const int i = top + tap / kKernel, j = left + tap % kKernel; kWhole || has(i, j))
        seen[tap] = value(map, i, j);
    Largest<kWidth> largest;
    OSPREY_UNROLL
    for (int tap = 0; tap < kTaps; ++tap)
      if (kWhole || has(top + tap / kKernel, left + tap % kKernel)) largest.see(seen[tap], tap);
    return largest;
  }
};

/// The gradient of the map: of each place what the windows give it whose largest value it is.
template <class T, int kWidth>
struct MaxPoolGradient {
  PoolWindow window;
  Divisor height, width, vectors;
  const T* gradient;    ///< [B, lines, pixels, depth]
  const uint8_t* taps;  ///< the same
  T* result;            ///< [B, height, width, depth]

  OSPREY_INLINE void operator()(int64_t number) const {
    const PlaceOfMap<kWidth> place(number, height, width, vectors);
    const int64_t map = place.picture * window.lines * window.pixels * window.depth + place.channel;
    const int down = place.y + window.above, right = place.x + window.left;
    float sum[kWidth] = {};
    for (int line = first_window(down); line <= down / window.stride && line < window.lines; ++line)
      for (int pixel = first_window(right); pixel <= right / window.stride && pixel < window.pixels; ++pixel) {
        const int64_t at = map + static_cast<int64_t>(line * window.pixels + pixel) * window.depth;
        const int tap = (down - line * window.stride) * window.kernel + right - pixel * window.stride;
        const auto chosen = read_taps<kWidth>(taps + at);
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

/// The same for windows of 3 x 3 that jump by two, of a square of 2 x 2 places: four windows see it.
template <class T, int kWidth>
struct MaxPoolGradientByTwo {
  static constexpr int kKernel = 3, kStride = 2;
  PoolWindow window;
  Divisor rows, columns, vectors;  ///< of squares
  const T* gradient;               ///< [B, lines, pixels, depth]
  const uint8_t* taps;             ///< the same
  T* result;                       ///< [B, height, width, depth]

  /// Squares that cover a side of the map, of which so many zeros are before it.
  static int64_t squares(int64_t size, int64_t before) { return (size - 1 + before) / kStride + 1; }

  OSPREY_INLINE void operator()(int64_t number) const {
    const PlaceOfMap<kWidth> square(number, rows, columns, vectors);
    const int64_t map = square.picture * window.lines * window.pixels * window.depth + square.channel,
                  to = square.picture * window.height * window.width * window.depth + square.channel;
    Vector<T, kWidth> values[2][2];
    LargestTaps<kWidth> chosen[2][2];
    OSPREY_UNROLL
    for (int w = 0; w < 4; ++w) {
      const int line = square.y - 1 + w / 2, pixel = square.x - 1 + w % 2;
      if (!has_place(line, pixel, window.lines, window.pixels)) continue;
      const int64_t at = map + static_cast<int64_t>(line * window.pixels + pixel) * window.depth;
      values[w / 2][w % 2] = read<kWidth>(gradient + at);
      chosen[w / 2][w % 2] = read_taps<kWidth>(taps + at);
    }
    OSPREY_UNROLL
    for (int place = 0; place < 4; ++place) {
      const int a = place / 2, b = place % 2, y = square.y * kStride + a - window.above,
                x = square.x * kStride + b - window.left;
      if (!has_place(y, x, window.height, window.width)) continue;
      float sum[kWidth] = {};
      OSPREY_UNROLL
      for (int i = a; i < 2; ++i) {
        OSPREY_UNROLL
        for (int j = b; j < 2; ++j) {
          const int tap = ((1 - i) * kStride + a) * kKernel + (1 - j) * kStride + b;
          const bool there = has_place(square.y - 1 + i, square.x - 1 + j, window.lines, window.pixels);
          OSPREY_UNROLL
          for (int k = 0; k < kWidth; ++k) sum[k] += there && chosen[i][j].of[k] == tap ? values[i][j][k] : 0.0f;
        }
      }
      write(result + to + static_cast<int64_t>(y * window.width + x) * window.depth, sum);
    }
  }
};

}  // namespace osprey::kernels::device
