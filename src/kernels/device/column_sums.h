#pragma once
#include "kernels/device/map_rows.h"

/// Sums over the rows of a map.
namespace osprey::kernels::device {

/// Two sums per channel over the rows of each block. `Element` says what is summed. It has
///
///     kWidth, kAhead                       channels of a thread, rows that it reads at a time
///     with_channels(channel, run)          calls run(channels)
///     finish(channel, rows, sum, other)    makes of the sums of so many rows what is wanted
///
/// and `channels`, what a thread keeps at hand of its own, has
///
///     read(at)                             what is needed of a row
///     add(at, what has been read, a, b)    adds it to the sums of each channel, a[kWidth] and b[kWidth]
template <class Element>
struct ColumnSums {
  static constexpr int kWidth = Element::kWidth, kThreads = RowShares<kWidth>::kThreads;
  static constexpr int kAtOnce = 2;
  static constexpr int64_t kFloats = 32;  ///< rows that a thread sums as floats before they join the doubles
  static constexpr int64_t kLeastRows = Element::kAhead;  ///< of a thread
  /// Each leaves sums to be added up, which takes as long for a small map as for a large one. As many as the 132
  /// multiprocessors of an H100 or H200 have at once.
  static constexpr int64_t kMostBlocks = kAtOnce * 132;
  struct Shared {
    double sums[2 * kWidth][kThreads];  ///< of each thread's channels
    double parts[2][kThreads];          ///< of a channel, from some of the lanes
  };

  Element element;
  RowShares<kWidth> shares;
  double* parts;  ///< [row blocks, 2, depth]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      if (share.channel >= 0)
        element.with_channels(share.channel, [&](const auto& channels) { sum_rows(share, thread, channels, shared); });
    });
    // Then a thread has a channel, and where there are threads enough every groups-th lane of it.
    const int channels = shares.columns * kWidth, groups = kThreads / channels;
    block.run([&](int thread) {
      const int group = thread / channels, k = thread % channels / shares.columns, column = thread % shares.columns;
      if (group >= groups) return;
      double sum = 0, other = 0;
      for (int lane = group; lane < shares.lanes; lane += groups) {
        sum += shared.sums[k][lane * shares.columns + column];
        other += shared.sums[kWidth + k][lane * shares.columns + column];
      }
      shared.parts[0][thread] = sum;
      shared.parts[1][thread] = other;
    });
    block.run([&](int thread) {
      const int64_t first = shares.channel_of(block.index, thread % shares.columns);
      if (thread >= channels || first < 0) return;
      const int64_t channel = first + thread / shares.columns;
      double sum = 0, other = 0;
      for (int group = 0; group < groups; ++group) {
        sum += shared.parts[0][group * channels + thread];
        other += shared.parts[1][group * channels + thread];
      }
      element.finish(channel, shares.rows_of(block.index), sum, other);
      double* const sums = parts + shares.row_block(block.index) * 2 * shares.depth + channel;
      sums[0] = sum;
      sums[shares.depth] = other;
    });
  }

 private:
  template <class Share, class Channels>
  static OSPREY_INLINE void sum_rows(const Share& share, int thread, const Channels& channels, Shared& shared) {
    int64_t row = 0;
    do {
      float a[kWidth] = {}, b[kWidth] = {};
      for_rows<Element::kAhead>(
          share, row, row + kFloats < share.count ? row + kFloats : share.count,
          [&](int64_t at) { return channels.read(at); },
          [&](int64_t at, const auto& read) { channels.add(at, read, a, b); });
      OSPREY_UNROLL
      for (int k = 0; k < kWidth; ++k) {
        const double sum = row > 0 ? shared.sums[k][thread] : 0, other = row > 0 ? shared.sums[kWidth + k][thread] : 0;
        shared.sums[k][thread] = sum + a[k];
        shared.sums[kWidth + k][thread] = other + b[k];
      }
      row += kFloats;
    } while (row < share.count);
  }
};

/// Adds up what the blocks of `ColumnSums` have found, two sums for each column, always in the same order, and gives
/// them on: finish(column, sum, other).
template <class Finish>
struct AddParts {
  static constexpr int kColumns = 4, kSums = 2 * kColumns, kThreads = 512, kLanes = kThreads / kSums, kAhead = 8;
  struct Shared {
    double sums[kThreads];
  };
  const double* parts;  ///< [row_blocks, 2, columns]
  int64_t row_blocks, columns;
  Finish finish;

  int64_t blocks() const { return blocks_for(columns, kColumns); }
  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const auto column = [&](int thread) { return block.index * kColumns + thread % kColumns; };
    block.run([&](int thread) {
      const int64_t at = thread / kColumns % 2 * columns + column(thread);
      double sum = 0;
      if (column(thread) < columns)
        for (int64_t first = thread / kSums; first < row_blocks; first += kAhead * kLanes) {
          double read[kAhead];  // together on their way
          OSPREY_UNROLL
          for (int k = 0; k < kAhead; ++k) {
            const int64_t part = first + k * kLanes;
            read[k] = part < row_blocks ? parts[part * 2 * columns + at] : 0;
          }
          OSPREY_UNROLL
          for (int k = 0; k < kAhead; ++k) sum += read[k];
        }
      shared.sums[thread] = sum;
    });
    for (int half = kThreads / 2; half >= kSums; half /= 2)
      block.run([&](int thread) {
        if (thread < half) shared.sums[thread] += shared.sums[thread + half];
      });
    block.run([&](int thread) {
      if (thread < kColumns && column(thread) < columns)
        finish(column(thread), shared.sums[thread], shared.sums[thread + kColumns]);
    });
  }
};

/// For `AddParts`: writes the sums down.
struct KeepSums {
  int64_t columns;
  double* sums;  ///< [2, columns]
  OSPREY_INLINE void operator()(int64_t c, double sum, double other) const {
    sums[c] = sum;
    sums[columns + c] = other;
  }
};

}  // namespace osprey::kernels::device
