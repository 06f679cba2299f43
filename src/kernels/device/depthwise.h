#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/device/column_sums.h"

/// Convolutions of each channel by itself with a square window of `kKernel` taps a side, over maps of channels_last. A
/// thread has some neighbouring channels of some neighbouring pixels, and goes down the lines of a strip of the map: it
/// reads each line once, adds it to all results that see it, and fetches the next line meanwhile.
/// Bytes moved: the maps once each (what neighbouring strips both read meets in the cache), and the weights once.
namespace osprey::kernels::device {

/// How a window moves over a map.
struct DepthwiseWindow {
  int64_t height, width;  ///< of the map
  int64_t lines, pixels;  ///< of the result
  int64_t above, left;    ///< zeros
  int64_t depth;
};

constexpr int kDepthwiseWidth = 4;  ///< channels of a thread

/// A few neighbouring pixels of lines `top` to `bottom` - 1.
struct Strip {
  int64_t picture;
  int top, bottom, first;
};

/// The strips that cover a map, `kRun` pixels wide: `number` counts them over all pictures.
template <int kRun>
struct Strips {
  int64_t lines, runs;  ///< of the map, strips side by side
  int64_t strip_lines;  ///< of a strip; the last one of a picture may have fewer
  int64_t of_a_column;  ///< strips one below the other

  /// most_lines  of a strip, at least 1
  Strips(int64_t map_lines, int64_t pixels, int64_t most_lines)
      : lines(map_lines),
        runs(blocks_for(pixels, kRun)),
        strip_lines(most_lines),
        of_a_column(blocks_for(map_lines, most_lines)) {}

  int64_t of_a_picture() const { return runs * of_a_column; }
  OSPREY_INLINE Strip strip(int64_t number) const {
    const Split run(number, runs), column(run.quotient, of_a_column);
    const int64_t top = column.rest * strip_lines, bottom = top + strip_lines;
    return {column.quotient, static_cast<int>(top), static_cast<int>(bottom < lines ? bottom : lines),
            static_cast<int>(run.rest * kRun)};
  }
};

/// `kCount` neighbouring pixels of the lines of a map, one line after the other.
template <int kCount, class T>
class LinesOfMap {
 public:
  using Pixel = Vector<std::remove_const_t<T>, kDepthwiseWidth>;
  using Line = Pixel[kCount];

  /// map    a picture, from the first channel on
  /// line, end   the first line and the one after the last; those that the picture lacks included
  /// first  pixel, may be before the line      count  pixels that are wanted, those that the picture lacks included
  OSPREY_INLINE LinesOfMap(T* map, int64_t height, int64_t width, int64_t depth, int line, int end, int first,
                           int count = kCount)
      : at_(map + (line * width + first) * depth),
        step_(width * depth),
        line_(line),
        end_(end < height ? end : static_cast<int>(height)),
        depth_(static_cast<int>(depth)) {
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i)
      if (i < count && first + i >= 0 && first + i < width) there_ |= 1u << i;
  }
  /// Zeros where there are no pixels.  returns  whether there is such a line
  OSPREY_INLINE bool read_next(Line& to) {
    const bool found = has_line();
    const unsigned there = found ? there_ : 0;
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i) {
      to[i] = {};
      if ((there >> i & 1) != 0) to[i] = read<kDepthwiseWidth>(at_ + i * depth_);
    }
    go_on();
    return found;
  }
  /// What has been summed becomes those pixels that there are.
  OSPREY_INLINE void write_next(const float (&sums)[kCount][kDepthwiseWidth]) {
    const unsigned there = has_line() ? there_ : 0;
    OSPREY_UNROLL
    for (int i = 0; i < kCount; ++i)
      if ((there >> i & 1) != 0) write(at_ + i * depth_, sums[i]);
    go_on();
  }

 private:
  OSPREY_INLINE bool has_line() const { return line_ >= 0 && line_ < end_; }
  OSPREY_INLINE void go_on() {
    at_ += step_;
    ++line_;
  }
  T* at_;  ///< the first pixel of the next line
  int64_t step_;
  int line_, end_, depth_;
  unsigned there_ = 0;  ///< a bit for each pixel
};

/// The weights of the channels of a thread: few taps stay in registers, many are read from the nearest cache.
template <int kKernel>
class TapsOfChannels {
 public:
  OSPREY_INLINE TapsOfChannels(const float* weights, int64_t depth, int64_t channel)
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
  int64_t depth_;
  Vector<float, kDepthwiseWidth> kept_[kKept ? kTaps : 1];
};

/// Pixels of a strip of what windows see: where they are small and overlap more than by half, more of them share what
/// is read, and there are registers for their sums.
constexpr int depthwise_run(int kernel, int stride) { return kernel == 3 && stride == 1 ? 4 : 2; }

/// Sums of a line of results.
template <int kRun>
using SumsOfLine = float[kRun][kDepthwiseWidth];

template <class Pixel, int kCount>
OSPREY_INLINE void copy_line(const Pixel (&from)[kCount], Pixel (&to)[kCount]) {
  OSPREY_UNROLL
  for (int i = 0; i < kCount; ++i) to[i] = from[i];
}
template <int kCount, int kWidth>
OSPREY_INLINE void copy_line(const float (&from)[kCount][kWidth], float (&to)[kCount][kWidth]) {
  OSPREY_UNROLL
  for (int i = 0; i < kCount * kWidth; ++i) to[i / kWidth][i % kWidth] = from[i / kWidth][i % kWidth];
}

template <class Pixel, int kCount, int kWidth>
OSPREY_INLINE void unpack_line(const Pixel (&from)[kCount], float (&to)[kCount][kWidth]) {
  OSPREY_UNROLL
  for (int i = 0; i < kCount * kWidth; ++i) to[i / kWidth][i % kWidth] = from[i / kWidth][i % kWidth];
}

/// Makes a map strip by strip, which are the rows of the shares: make(strip, first channel).
template <class Make>
struct DepthwiseStrips {
  static constexpr int kThreads = 128;
  using Shared = Nothing;
  RowShares<kDepthwiseWidth, kThreads> shares;
  Strips<Make::kRun> strips;
  Make make;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      for (int64_t i = 0; i < share.count; ++i) make(strips.strip(share.row + i * shares.lanes), share.channel);
    });
  }
};

/// y = what the window sees, times the weights.
template <class T, int kKernel, int kStride>
struct DepthwiseForward {
  static constexpr int kWidth = kDepthwiseWidth, kRun = depthwise_run(kKernel, kStride),
                       kSeen = (kRun - 1) * kStride + kKernel;
  static constexpr int kOpen = (kKernel + kStride - 1) / kStride;  ///< lines of results that see a line
  DepthwiseWindow window;
  const T* x;
  const float* weights;  ///< [taps, depth]
  T* y;

  OSPREY_INLINE void operator()(const Strip& strip, int64_t channel) const {
    const int above = static_cast<int>(window.above), left = static_cast<int>(window.left);
    LinesOfMap<kSeen, const T> map(x + strip.picture * window.height * window.width * window.depth + channel,
                                   window.height, window.width, window.depth, strip.top * kStride - above,
                                   (strip.bottom - 1) * kStride - above + kKernel, strip.first * kStride - left);
    LinesOfMap<kRun, T> result(y + strip.picture * window.lines * window.pixels * window.depth + channel, window.lines,
                               window.pixels, window.depth, strip.top, strip.bottom, strip.first);
    const TapsOfChannels<kKernel> taps(weights, window.depth, channel);
    SumsOfLine<kRun> open[kOpen] = {};  // of result `step`, and of those above it
    Seen seen, coming;
    bool found = map.read_next(seen);
    for (int step = strip.top; step < strip.bottom + kOpen - 1; ++step) {
      OSPREY_UNROLL
      for (int j = 0; j < kStride; ++j) {
        const bool next_found = map.read_next(coming);
        if (found) add(seen, j, taps, open);
        copy_line(coming, seen);
        found = next_found;
      }
      if (step - kOpen + 1 >= strip.top) result.write_next(open[kOpen - 1]);
      OSPREY_UNROLL
      for (int q = kOpen - 1; q > 0; --q) copy_line(open[q - 1], open[q]);
      clear(open[0]);
    }
  }

 private:
  using Seen = typename LinesOfMap<kSeen, const T>::Line;
  /// What a line, the `j`-th of a step, is to all results that see it.
  static OSPREY_INLINE void add(const Seen& seen, int j, const TapsOfChannels<kKernel>& taps,
                                SumsOfLine<kRun> (&open)[kOpen]) {
    float values[kSeen][kWidth];
    unpack_line(seen, values);
    OSPREY_UNROLL
    for (int q = 0; q < kOpen; ++q) {
      const int row = q * kStride + j;
      if (row >= kKernel) continue;
      OSPREY_UNROLL
      for (int k = 0; k < kKernel; ++k) {
        const auto weight = taps[row * kKernel + k];
        OSPREY_UNROLL
        for (int p = 0; p < kRun; ++p) {
          OSPREY_UNROLL
          for (int c = 0; c < kWidth; ++c) open[q][p][c] += weight[c] * values[p * kStride + k][c];
        }
      }
    }
  }
  static OSPREY_INLINE void clear(SumsOfLine<kRun>& sums) {
    OSPREY_UNROLL
    for (int i = 0; i < kRun * kWidth; ++i) sums[i / kWidth][i % kWidth] = 0;
  }
};

/// The gradient of the map where windows jump by two (elsewhere it is a convolution with the weights turned around).
/// Strips are of pairs of lines: line y belongs to pair (y + above) / 2, and runs begin where a window does.
template <class T, int kKernel>
struct DepthwiseGradient {
  static constexpr int kWidth = kDepthwiseWidth, kRun = 4;
  static constexpr int kOpen = (kKernel + 1) / 2;     ///< pairs that a line of the gradient belongs to
  static constexpr int kSeen = kRun / 2 + kOpen - 1;  ///< its pixels that belong to a run
  DepthwiseWindow window;
  const T* gradient;
  const float* weights;  ///< [taps, depth]
  T* result;

  /// The pairs of lines, or the pixels, of which strips are made.
  static int64_t pairs(int64_t size, int64_t before) { return (size - 1 + before) / 2 + 1; }
  static int64_t pixels(int64_t size, int64_t before) { return size + before % 2; }

  OSPREY_INLINE void operator()(const Strip& strip, int64_t channel) const {
    const int above = static_cast<int>(window.above), left = static_cast<int>(window.left),
              first = strip.first - left % 2, top = strip.top - kOpen + 1;
    LinesOfMap<kSeen, const T> map(gradient + strip.picture * window.lines * window.pixels * window.depth + channel,
                                   window.lines, window.pixels, window.depth, top, strip.bottom,
                                   (first + left) / 2 - kOpen + 1);
    LinesOfMap<kRun, T> to(result + strip.picture * window.height * window.width * window.depth + channel,
                           window.height, window.width, window.depth, 2 * strip.top - above, 2 * strip.bottom - above,
                           first);
    const TapsOfChannels<kKernel> taps(weights, window.depth, channel);
    SumsOfLine<kRun> open[kOpen][2] = {};  // of pair `step`, and of those below it
    Seen seen, coming;
    bool found = map.read_next(seen);
    for (int step = top; step < strip.bottom; ++step) {
      const bool next_found = map.read_next(coming);
      if (found) add(seen, taps, open);
      copy_line(coming, seen);
      found = next_found;
      if (step >= strip.top) {
        to.write_next(open[0][0]);
        to.write_next(open[0][1]);
      }
      OSPREY_UNROLL
      for (int q = 0; q < kOpen; ++q) {
        OSPREY_UNROLL
        for (int i = 0; i < 2 * kRun * kWidth; ++i) {
          const int line = i / (kRun * kWidth), p = i / kWidth % kRun, c = i % kWidth;
          open[q][line][p][c] = q + 1 < kOpen ? open[q + 1][line][p][c] : 0.0f;
        }
      }
    }
  }

 private:
  using Seen = typename LinesOfMap<kSeen, const T>::Line;
  /// What a line of the gradient is to all lines that its windows have seen.
  static OSPREY_INLINE void add(const Seen& seen, const TapsOfChannels<kKernel>& taps,
                                SumsOfLine<kRun> (&open)[kOpen][2]) {
    float values[kSeen][kWidth];
    unpack_line(seen, values);
    OSPREY_UNROLL
    for (int row = 0; row < kKernel; ++row) {
      OSPREY_UNROLL
      for (int k = 0; k < kKernel; ++k) {
        const auto weight = taps[row * kKernel + k];
        OSPREY_UNROLL
        for (int p = k % 2; p < kRun; p += 2) {
          OSPREY_UNROLL
          for (int c = 0; c < kWidth; ++c)
            open[row / 2][row % 2][p][c] += weight[c] * values[(p - k) / 2 + kOpen - 1][c];
        }
      }
    }
  }
};

/// For each tap the sum over all places of what it sees times the gradient there, in fixed blocks of strips of the
/// result.
template <class T, int kKernel, int kStride>
struct DepthwiseWeightSums {
  static constexpr int kWidth = kDepthwiseWidth, kRun = depthwise_run(kKernel, kStride), kTaps = kKernel * kKernel;
  static constexpr int kSeen = (kRun - 1) * kStride + kKernel, kOpen = (kKernel + kStride - 1) / kStride;
  static constexpr int kThreads = kKernel > 3 ? 64 : 128;  ///< whose sums fit into the memory of a block
  static constexpr int64_t kMostBlocks = 2048;
  struct Shared {
    float sums[kTaps * kWidth][kThreads];
  };
  RowShares<kWidth, kThreads> shares;
  Strips<kRun> strips;
  DepthwiseWindow window;
  const T *gradient, *x;
  double* parts;  ///< [row blocks, taps, depth]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      float sums[kTaps][kWidth] = {};
      for (int64_t i = 0; i < share.count; ++i)
        add_strip(strips.strip(share.row + i * shares.lanes), share.channel, sums);
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
  using Seen = typename LinesOfMap<kSeen, const T>::Line;
  using Wanted = typename LinesOfMap<kRun, const T>::Line;

  OSPREY_INLINE void add_strip(const Strip& strip, int64_t channel, float (&sums)[kTaps][kWidth]) const {
    // Pixels that no window of the run sees are left out: they would be multiplied with zeros, and may be infinite.
    const int rest = static_cast<int>(window.pixels) - strip.first, run = rest < kRun ? rest : kRun;
    const int above = static_cast<int>(window.above), left = static_cast<int>(window.left);
    LinesOfMap<kSeen, const T> map(x + strip.picture * window.height * window.width * window.depth + channel,
                                   window.height, window.width, window.depth, strip.top * kStride - above,
                                   (strip.bottom - 1) * kStride - above + kKernel, strip.first * kStride - left,
                                   (run - 1) * kStride + kKernel);
    LinesOfMap<kRun, const T> given(gradient + strip.picture * window.lines * window.pixels * window.depth + channel,
                                    window.lines, window.pixels, window.depth, strip.top, strip.bottom, strip.first);
    Wanted wanted[kOpen], next_wanted;  // of result `step`, and of those above it
    OSPREY_UNROLL
    for (int i = 0; i < kOpen * kRun; ++i) wanted[i / kRun][i % kRun] = {};
    Seen seen, coming;
    given.read_next(wanted[0]);
    bool found = map.read_next(seen);
    for (int step = strip.top; step < strip.bottom + kOpen - 1; ++step) {
      given.read_next(next_wanted);
      OSPREY_UNROLL
      for (int j = 0; j < kStride; ++j) {
        const bool next_found = map.read_next(coming);
        if (found) add(seen, j, wanted, sums);
        copy_line(coming, seen);
        found = next_found;
      }
      OSPREY_UNROLL
      for (int q = kOpen - 1; q > 0; --q) copy_line(wanted[q - 1], wanted[q]);
      copy_line(next_wanted, wanted[0]);
    }
  }

  static OSPREY_INLINE void add(const Seen& seen, int j, const Wanted (&wanted)[kOpen], float (&sums)[kTaps][kWidth]) {
    float values[kSeen][kWidth];
    unpack_line(seen, values);
    OSPREY_UNROLL
    for (int q = 0; q < kOpen; ++q) {
      const int row = q * kStride + j;
      if (row >= kKernel) continue;
      OSPREY_UNROLL
      for (int p = 0; p < kRun; ++p) {
        OSPREY_UNROLL
        for (int k = 0; k < kKernel; ++k) {
          OSPREY_UNROLL
          for (int c = 0; c < kWidth; ++c) sums[row * kKernel + k][c] += wanted[q][p][c] * values[p * kStride + k][c];
        }
      }
    }
  }
};

}  // namespace osprey::kernels::device
