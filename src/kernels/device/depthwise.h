#pragma once
#include "kernels/device/column_sums.h"

/// Convolutions of each channel by itself with a square window of `kKernel` taps a side, over maps of channels_last. A
/// thread has some neighbouring channels of some neighbouring pixels, so that what several of them see is read once.
/// Bytes moved: the maps once each (neighbouring lines meet in the cache), and the weights from the nearest cache.
namespace osprey::kernels::device {

/// How a window moves over a map.
struct DepthwiseWindow {
  int64_t height, width;  ///< of the map
  int64_t lines, pixels;  ///< of the result
  int64_t above, left;    ///< zeros
  int64_t depth;
};

/// A few neighbouring pixels of a line: `number` counts them over all lines of all pictures.
template <int kRun>
struct RunOfPixels {
  static OSPREY_INLINE int64_t of_line(int64_t pixels) { return (pixels + kRun - 1) / kRun; }
  int64_t picture, line, first;
  OSPREY_INLINE RunOfPixels(int64_t number, int64_t lines, int64_t pixels) {
    const Split run(number, of_line(pixels)), line_of(run.quotient, lines);
    picture = line_of.quotient;
    line = line_of.rest;
    first = run.rest * kRun;
  }
};

constexpr int kDepthwiseWidth = 4, kDepthwiseRun = 4;  ///< channels and pixels of a thread

/// `kCount` neighbouring pixels of a line from `first` on; zeros where there are none.
template <int kCount, class T>
OSPREY_INLINE void read_pixels(const T* line, int64_t first, int64_t width, int64_t depth,
                               Vector<T, kDepthwiseWidth> (&to)[kCount]) {
  OSPREY_UNROLL
  for (int i = 0; i < kCount; ++i) {
    to[i] = {};
    if (first + i >= 0 && first + i < width) to[i] = read<kDepthwiseWidth>(line + (first + i) * depth);
  }
}

/// What has been summed for neighbouring pixels of a line from `first` on becomes those of them that there are.
template <int kCount, class T>
OSPREY_INLINE void write_pixels(const float (&sums)[kCount][kDepthwiseWidth], int64_t first, int64_t width,
                                int64_t depth, T* line) {
  OSPREY_UNROLL
  for (int p = 0; p < kCount; ++p) {
    if (first + p >= width) continue;
    Vector<T, kDepthwiseWidth> pixel;
    OSPREY_UNROLL
    for (int c = 0; c < kDepthwiseWidth; ++c) store(pixel.values + c, sums[p][c]);
    write(line + (first + p) * depth, pixel);
  }
}

/// Makes a map by runs of its pixels, which are the rows of the shares: make(number of a run, first channel).
template <class Make>
struct DepthwiseRuns {
  static constexpr int kThreads = 256;
  using Shared = Nothing;
  RowShares<kDepthwiseWidth> shares;
  Make make;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      for (int64_t i = 0; i < share.count; ++i) make(share.row + i * shares.lanes, share.channel);
    });
  }
};

/// y = what the window sees, times the weights.
template <class T, int kKernel, int kStride>
struct DepthwiseForward {
  static constexpr int kWidth = kDepthwiseWidth, kRun = kDepthwiseRun;
  DepthwiseWindow window;
  const T* x;
  const float* weights;  ///< [taps, depth]
  T* y;

  OSPREY_INLINE void operator()(int64_t number, int64_t channel) const {
    const RunOfPixels<kRun> run(number, window.lines, window.pixels);
    float sums[kRun][kWidth] = {};
    OSPREY_UNROLL
    for (int r = 0; r < kKernel; ++r) {
      const int64_t line = run.line * kStride - window.above + r;
      if (line < 0 || line >= window.height) continue;
      Vector<T, kWidth> seen[(kRun - 1) * kStride + kKernel];
      read_pixels(x + (run.picture * window.height + line) * window.width * window.depth + channel,
                  run.first * kStride - window.left, window.width, window.depth, seen);
      OSPREY_UNROLL
      for (int k = 0; k < kKernel; ++k) {
        const auto weight = read<kWidth>(weights + (r * kKernel + k) * window.depth + channel);
        OSPREY_UNROLL
        for (int p = 0; p < kRun; ++p) {
          OSPREY_UNROLL
          for (int c = 0; c < kWidth; ++c) sums[p][c] += weight.values[c] * load(seen[p * kStride + k].values + c);
        }
      }
    }
    write_pixels(sums, run.first, window.pixels, window.depth,
                 y + (run.picture * window.lines + run.line) * window.pixels * window.depth + channel);
  }
};

/// The gradient of the map where windows jump (elsewhere it is a convolution with the weights turned around): each
/// pixel asks whose window has seen it.
template <class T, int kKernel, int kStride>
struct DepthwiseGradient {
  static constexpr int kWidth = kDepthwiseWidth, kRun = kDepthwiseRun;
  DepthwiseWindow window;
  const T* gradient;
  const float* weights;  ///< [taps, depth]
  T* result;

  OSPREY_INLINE void operator()(int64_t number, int64_t channel) const {
    const RunOfPixels<kRun> run(number, window.height, window.width);
    float sums[kRun][kWidth] = {};
    for (int r = 0; r < kKernel; ++r) {
      const int line = target(run.line, window.above, r, window.lines);
      if (line < 0) continue;
      const T* const from = gradient + (run.picture * window.lines + line) * window.pixels * window.depth + channel;
      OSPREY_UNROLL
      for (int k = 0; k < kKernel; ++k) {
        const auto weight = read<kWidth>(weights + (r * kKernel + k) * window.depth + channel);
        OSPREY_UNROLL
        for (int p = 0; p < kRun; ++p) {
          const int pixel = target(run.first + p, window.left, k, window.pixels);
          if (pixel < 0) continue;
          const auto of_pixel = read<kWidth>(from + pixel * window.depth);
          OSPREY_UNROLL
          for (int c = 0; c < kWidth; ++c) sums[p][c] += weight.values[c] * load(of_pixel.values + c);
        }
      }
    }
    write_pixels(sums, run.first, window.width, window.depth,
                 result + (run.picture * window.height + run.line) * window.width * window.depth + channel);
  }

 private:
  /// The target of a window whose tap number `tap` lies on `source`; -1: there is none.
  OSPREY_INLINE int target(int64_t source, int64_t before, int tap, int64_t targets) const {
    const int from_first = static_cast<int>(source + before) - tap;
    if (from_first < 0 || from_first % kStride != 0) return -1;
    const int number = from_first / kStride;
    return number < targets ? number : -1;
  }
};

/// For each tap the sum over all places of what it sees times the gradient there, in fixed blocks of runs of pixels of
/// the result.
template <class T, int kKernel, int kStride>
struct DepthwiseWeightSums {
  static constexpr int kWidth = kDepthwiseWidth, kRun = kDepthwiseRun, kTaps = kKernel * kKernel;
  static constexpr int kThreads = kKernel > 3 ? 64 : 128;  ///< whose sums fit into the memory of a block
  static constexpr int64_t kMostBlocks = 2048;
  struct Shared {
    float sums[kTaps * kWidth][kThreads];
  };
  RowShares<kWidth, kThreads> shares;
  DepthwiseWindow window;
  const T *gradient, *x;
  double* parts;  ///< [row blocks, taps, depth]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      float sums[kTaps][kWidth] = {};
      for (int64_t i = 0; i < share.count; ++i) add(share.row + i * shares.lanes, share.channel, sums);
      OSPREY_UNROLL
      for (int i = 0; i < kTaps * kWidth; ++i) shared.sums[i][thread] = sums[i / kWidth][i % kWidth];
    });
    sum_lanes(block, shares, shared.sums);
    block.run([&](int thread) {
      const int64_t channel = shares.of(block.index, thread).channel;
      if (thread >= shares.columns || channel < 0) return;
      double* const to = parts + shares.row_block(block.index) * kTaps * shares.depth + channel;
      for (int i = 0; i < kTaps * kWidth; ++i) to[i / kWidth * shares.depth + i % kWidth] = shared.sums[i][thread];
    });
  }

 private:
  OSPREY_INLINE void add(int64_t number, int64_t channel, float (&sums)[kTaps][kWidth]) const {
    const RunOfPixels<kRun> run(number, window.lines, window.pixels);
    Vector<T, kWidth> wanted[kRun];
    read_pixels(gradient + (run.picture * window.lines + run.line) * window.pixels * window.depth + channel, run.first,
                window.pixels, window.depth, wanted);
    OSPREY_UNROLL
    for (int r = 0; r < kKernel; ++r) {
      const int64_t line = run.line * kStride - window.above + r;
      if (line < 0 || line >= window.height) continue;
      Vector<T, kWidth> seen[(kRun - 1) * kStride + kKernel];
      read_pixels(x + (run.picture * window.height + line) * window.width * window.depth + channel,
                  run.first * kStride - window.left, window.width, window.depth, seen);
      OSPREY_UNROLL
      for (int k = 0; k < kKernel; ++k) {
        OSPREY_UNROLL
        for (int p = 0; p < kRun; ++p) {
          if (run.first + p >= window.pixels) continue;  // zeros, times what may be infinite
          OSPREY_UNROLL
          for (int c = 0; c < kWidth; ++c)
            sums[r * kKernel + k][c] += load(wanted[p].values + c) * load(seen[p * kStride + k].values + c);
        }
      }
    }
  }
};

}  // namespace osprey::kernels::device
