#pragma once
#include <cstdint>

#include "kernels/device/map_rows.h"

/// Convolutions of each channel by itself with a square window of `kKernel` taps a side, over maps of channels_last. A
/// thread has some neighbouring channels of some neighbouring pixels, and goes down the lines of a band of the map, a
/// few at a time: all that their windows see is on its way together, and is added to all results that see it.
/// Bytes moved: the maps once each (what neighbouring bands both read meets in the cache), and the weights once.
namespace osprey::kernels::device {

/// How a window moves over a map.
struct DepthwiseWindow {
  int height, width;  ///< of the map
  int lines, pixels;  ///< of the result
  int above, left;    ///< zeros
  int depth;
};

constexpr int kDepthwiseWidth = 4;  ///< channels of a thread

/// Whether tap `row` is one of a window.
template <int kKernel>
OSPREY_INLINE bool has_tap(int row) {
  return row >= 0 && row < kKernel;
}

/// How blocks share a map: each has the channels of some threads, lines, and runs of pixels side by side, counted over
/// all pictures.
class DepthwiseBands {
 public:
  static constexpr int kThreads = 128, kMostColumns = 32, kLines = 8;

  /// lines, pixels  of a picture, of which `run` pixels are a thread's
  DepthwiseBands(int64_t pictures, int lines, int64_t pixels, int64_t depth, int run)
      : lines_(lines),
        vectors_(static_cast<int>(depth / kDepthwiseWidth)),
        column_blocks_(blocks_for(vectors_, kMostColumns)),
        bands_(blocks_for(lines, kLines)),
        runs_(blocks_for(pixels, run)),
        all_runs_(pictures * runs_),
        columns_(static_cast<int>(blocks_for(vectors_, column_blocks_))),
        lanes_(kThreads / columns_) {}

  int64_t blocks() const { return blocks_for(all_runs_, lanes_) * bands_ * column_blocks_; }

  /// What a block has: channels from a column on, runs, lines `top` to `bottom` - 1.
  struct Band {
    int first_column, top, bottom;
    int64_t first_run;
  };
  OSPREY_INLINE Band band(int64_t block) const {
    const Split column(static_cast<int>(block), column_blocks_), line(column.quotient, bands_);
    const int top = line.rest * kLines;
    return {column.rest * columns_, top, top + kLines < lines_ ? top + kLines : lines_,
            static_cast<int64_t>(line.quotient) * lanes_};
  }

  /// What a thread has of it. Where `there` is false it has nothing, and may read what is at the beginning.
  struct Run {
    bool there;
    int channel;
    int64_t picture;
    int number;  ///< in its line
  };
  OSPREY_INLINE Run run(const Band& band, int thread) const {
    const int lane = thread / columns_, column = band.first_column + thread % columns_;
    const int64_t number = band.first_run + lane;
    const bool there = lane < lanes_ && column < vectors_ && number < all_runs_;
    const Split of(there ? number : 0, runs_);
    return {there, there ? column * kDepthwiseWidth : 0, of.quotient, static_cast<int>(of.rest)};
  }

 private:
  int lines_, vectors_;
  Divisor column_blocks_, bands_, runs_;
  int64_t all_runs_;
  int columns_, lanes_;  ///< threads side by side whose channels are, too, and so many runs
};

/// `kCount` neighbouring pixels of the lines of a map, those that it lacks included.
template <int kCount, class T>
class PixelsOfLines {
 public:
  using Pixel = Vector<std::remove_const_t<T>, kDepthwiseWidth>;

  /// maps   [pictures, height, width, depth]
  /// first  the first pixel; may be before the line
  OSPREY_INLINE PixelsOfLines(T* maps, int height, int width, int depth, const DepthwiseBands::Run& run, int first)
      : at_(maps + run.picture * height * width * depth + static_cast<int64_t>(first) * depth + run.channel),
        height_(height),
        line_size_(width * depth),
        depth_(depth) {
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i) there_[i] = run.there && first + i >= 0 && first + i < width;
  }

  OSPREY_INLINE bool has_line(int line) const { return line >= 0 && line < height_; }
  /// Zeros where there is nothing.
  OSPREY_INLINE void read_line(int line, Pixel (&to)[kCount]) const {
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i) to[i] = {};
    if (!has_line(line)) return;
    const T* const at = at_ + static_cast<int64_t>(line) * line_size_;
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i)
      if (there_[i]) to[i] = read<kDepthwiseWidth>(at + static_cast<uint32_t>(i * depth_));
  }
  OSPREY_INLINE void write_line(int line, const float (&values)[kCount][kDepthwiseWidth]) const {
    T* const at = at_ + static_cast<int64_t>(line) * line_size_;
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i)
      if (there_[i]) write(at + static_cast<uint32_t>(i * depth_), values[i]);
  }

 private:
  T* at_;
  int height_, line_size_, depth_;
  bool there_[kCount];
};

/// The weights of the channels of a thread: few taps stay in registers, many are read from the nearest cache.
template <int kKernel>
class TapsOfChannels {
 public:
  /// weights  [taps, depth]
  OSPREY_INLINE TapsOfChannels(const float* weights, int depth, int channel)
      : weights_(weights + channel), depth_(depth) {
    if constexpr (kKept) {
      OSPREY_UNROLL
      for (int tap = 0; tap < kTaps; ++tap) kept_[tap] = read<kDepthwiseWidth>(weights_ + tap * depth_);
    }
  }
  OSPREY_INLINE Vector<float, kDepthwiseWidth> operator[](int tap) const {
    if constexpr (kKept) return kept_[tap];
    return read<kDepthwiseWidth>(weights_ + tap * depth_);
  }

 private:
  static constexpr int kTaps = kKernel * kKernel;
  static constexpr bool kKept = kKernel == 3;
  const float* weights_;
  int depth_;
  Vector<float, kDepthwiseWidth> kept_[kKept ? kTaps : 1];
};

/// sums[c] += a[c] * b[c] of some channels of a pixel.
template <class A, class B>
OSPREY_INLINE void add_products(const A& a, const B& b, float (&sums)[kDepthwiseWidth]) {
  OSPREY_UNROLL
  for (int c = 0; c < kDepthwiseWidth; ++c) sums[c] += a[c] * b[c];
}

/// y = what the window sees, times the weights.
template <class T, int kKernel, int kStride>
struct DepthwiseForward {
  static constexpr int kRun = kStride == 1 ? 4 : 2, kLines = kStride == 1 ? 2 : 4;  ///< of results at a time
  static constexpr int kSeen = (kRun - 1) * kStride + kKernel, kSeenLines = (kLines - 1) * kStride + kKernel;
  static constexpr int kThreads = DepthwiseBands::kThreads, kAtOnce = kKernel * kStride > 6 ? 2 : 3;
  using Shared = Nothing;
  DepthwiseWindow window;
  DepthwiseBands bands;
  const T* x;
  const float* weights;  ///< [taps, depth]
  T* y;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const auto band = bands.band(block.index);
    block.run([&](int thread) {
      const auto run = bands.run(band, thread);
      const int first = run.number * kRun;
      const PixelsOfLines<kSeen, const T> map(x, window.height, window.width, window.depth, run,
                                              first * kStride - window.left);
      const PixelsOfLines<kRun, T> result(y, window.lines, window.pixels, window.depth, run, first);
      const TapsOfChannels<kKernel> taps(weights, window.depth, run.channel);
      for (int top = band.top; top < band.bottom; top += kLines) {
        float sums[kLines][kRun][kDepthwiseWidth] = {};
        OSPREY_UNROLL
        for (int line = 0; line < kSeenLines; ++line) {
          typename PixelsOfLines<kSeen, const T>::Pixel seen[kSeen];
          map.read_line(top * kStride - window.above + line, seen);
          OSPREY_UNROLL
          for (int q = 0; q < kLines; ++q) {
            const int row = line - q * kStride;
            if (has_tap<kKernel>(row)) add(seen, row, taps, sums[q]);
          }
        }
        OSPREY_UNROLL
        for (int q = 0; q < kLines; ++q)
          if (top + q < band.bottom) result.write_line(top + q, sums[q]);
      }
    });
  }

 private:
  template <class Pixel>
  static OSPREY_INLINE void add(const Pixel (&seen)[kSeen], int row, const TapsOfChannels<kKernel>& taps,
                                float (&sums)[kRun][kDepthwiseWidth]) {
    OSPREY_UNROLL
    for (int k = 0; k < kKernel; ++k) {
      const auto weight = taps[row * kKernel + k];
      OSPREY_UNROLL
      for (int p = 0; p < kRun; ++p) add_products(weight, seen[p * kStride + k], sums[p]);
    }
  }
};

/// The gradient of the map where windows jump by two (elsewhere it is a convolution with the weights turned around).
/// Bands are of pairs of lines: line y belongs to pair (y + above) / 2, and runs begin where a window does.
template <class T, int kKernel>
struct DepthwiseGradientByTwo {
  static constexpr int kRun = 4, kPairs = 2;          ///< pixels, and pairs of lines, at a time
  static constexpr int kOpen = (kKernel + 1) / 2;     ///< pairs that a line of the gradient belongs to
  static constexpr int kSeen = kRun / 2 + kOpen - 1;  ///< its pixels that belong to a run
  static constexpr int kThreads = DepthwiseBands::kThreads, kAtOnce = 3;
  using Shared = Nothing;
  DepthwiseWindow window;
  DepthwiseBands bands;
  const T* gradient;
  const float* weights;  ///< [taps, depth]
  T* result;

  /// The pairs of lines, or the pixels, that bands are made of.
  static int pairs(int size, int before) { return (size - 1 + before) / 2 + 1; }
  static int pixels(int size, int before) { return size + before % 2; }

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const auto band = bands.band(block.index);
    block.run([&](int thread) {
      const auto run = bands.run(band, thread);
      const int first = run.number * kRun - window.left % 2;
      const PixelsOfLines<kSeen, const T> given(gradient, window.lines, window.pixels, window.depth, run,
                                                (first + window.left) / 2 - kOpen + 1);
      const PixelsOfLines<kRun, T> to(result, window.height, window.width, window.depth, run, first);
      const TapsOfChannels<kKernel> taps(weights, window.depth, run.channel);
      for (int top = band.top; top < band.bottom; top += kPairs) {
        float sums[2 * kPairs][kRun][kDepthwiseWidth] = {};
        OSPREY_UNROLL
        for (int line = 0; line < kPairs + kOpen - 1; ++line) {
          typename PixelsOfLines<kSeen, const T>::Pixel wanted[kSeen];
          given.read_line(top - kOpen + 1 + line, wanted);
          OSPREY_UNROLL
          for (int y = 0; y < 2 * kPairs; ++y) {
            const int row = y % 2 + 2 * (y / 2 + kOpen - 1 - line);
            if (has_tap<kKernel>(row)) add(wanted, row, taps, sums[y]);
          }
        }
        OSPREY_UNROLL
        for (int y = 0; y < 2 * kPairs; ++y) {
          const int line = 2 * top + y - window.above;
          if (top + y / 2 < band.bottom && to.has_line(line)) to.write_line(line, sums[y]);
        }
      }
    });
  }

 private:
  template <class Pixel>
  static OSPREY_INLINE void add(const Pixel (&wanted)[kSeen], int row, const TapsOfChannels<kKernel>& taps,
                                float (&sums)[kRun][kDepthwiseWidth]) {
    OSPREY_UNROLL
    for (int k = 0; k < kKernel; ++k) {
      const auto weight = taps[row * kKernel + k];
      OSPREY_UNROLL
      for (int p = k % 2; p < kRun; p += 2) add_products(weight, wanted[(p - k) / 2 + kOpen - 1], sums[p]);
    }
  }
};

}  // namespace osprey::kernels::device
