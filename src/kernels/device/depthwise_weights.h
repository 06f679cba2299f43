#pragma once
#include <cstdint>
#include <type_traits>

#include "kernels/device/depthwise.h"

/// The gradient of the weights of convolutions of each channel by itself. A thread goes down the lines of a strip of
/// the map: it reads each line once, adds what it is to all taps that see it, and fetches the next line meanwhile. What
/// it sums stays in its registers from strip to strip, so these leave few registers for lines. Bytes moved: the map and
/// the gradient of the result once each.
namespace osprey::kernels::device {

/// A few neighbouring pixels of lines `top` to `bottom` - 1.
struct Strip {
  int64_t picture;
  int top, bottom, first;
};

/// The strips that cover a map, `kRun` pixels wide: `number` counts them over all pictures.
template <int kRun>
struct Strips {
  int64_t lines;
  Divisor runs;         ///< strips side by side
  int64_t strip_lines;  ///< of a strip; the last one of a picture may have fewer
  Divisor of_a_column;  ///< strips one below the other

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

/// `kCount` neighbouring pixels of the lines of a map, one line after the other: what is kept of them is the next
/// address and a bit for each, so that registers are left for sums.
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

template <class Pixel, int kCount>
OSPREY_INLINE void copy_line(const Pixel (&from)[kCount], Pixel (&to)[kCount]) {
  OSPREY_UNROLL
  for (int i = 0; i < kCount; ++i) to[i] = from[i];
}
template <class Pixel, int kCount, int kWidth>
OSPREY_INLINE void unpack_line(const Pixel (&from)[kCount], float (&to)[kCount][kWidth]) {
  OSPREY_UNROLL
  for (int i = 0; i < kCount * kWidth; ++i) to[i / kWidth][i % kWidth] = from[i / kWidth][i % kWidth];
}

/// Adds up what the lanes of a block have found, always in the same order: of each column it ends in the first lane.
template <class Block, class Shares, class T, int kCount, int kThreads>
OSPREY_INLINE void sum_lanes(const Block& block, const Shares& shares, T (&found)[kCount][kThreads]) {
  for (int count = shares.lanes; count > 1; count = (count + 1) / 2) {
    const int half = (count + 1) / 2;
    block.run([&](int thread) {
      if (thread / shares.columns + half >= count) return;
      for (auto& of : found) of[thread] += of[thread + half * shares.columns];
    });
  }
}

/// For each tap the sum over all places of what it sees times the gradient there, in fixed blocks of strips of the
/// result.
template <class T, int kKernel, int kStride>
struct DepthwiseWeightSums {
  static constexpr int kWidth = kDepthwiseWidth, kRun = kKernel == 3 && kStride == 1 ? 4 : 2, kTaps = kKernel * kKernel;
  static constexpr int kSeen = (kRun - 1) * kStride + kKernel, kOpen = (kKernel + kStride - 1) / kStride;
  static constexpr int kThreads = kKernel > 3 ? 64 : 128;  ///< whose sums fit into the memory of a block
  static constexpr int kAtOnce = kKernel == 3 && sizeof(T) == 2 ? 4 : 2;
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
    const int rest = window.pixels - strip.first, run = rest < kRun ? rest : kRun;
    LinesOfMap<kSeen, const T> map(x + strip.picture * window.height * window.width * window.depth + channel,
                                   window.height, window.width, window.depth, strip.top * kStride - window.above,
                                   (strip.bottom - 1) * kStride - window.above + kKernel,
                                   strip.first * kStride - window.left, (run - 1) * kStride + kKernel);
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
