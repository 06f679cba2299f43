#pragma once
#include <bit>
#include <cmath>

#include "kernels/arithmetic/overlap.h"
#include "kernels/device/kernel.h"
#include "osprey/kernels/match_options.h"

namespace osprey::kernels::device {

/// What an anchor is given instead of a box; the values of Match in core/targets.h.
constexpr int64_t kBackground = -1, kIgnore = -2;

/// Looks for the best box of each anchor, and for the best anchor of each box that may force: an anchor per thread, the
/// boxes passing by in the memory of the block.
struct MatchAnchors {
  static constexpr int kThreads = 256, kBoxes = 128;
  struct Shared {
    Corners boxes[kBoxes];
    bool takes_part[kBoxes];
    int padding;  ///< boxes after the last one that takes part
    unsigned long long best_anchor[kBoxes];
    float best_value[kThreads];
    int best_row[kThreads];
  };

  const float* boxes;           ///< [B, M, 4]
  const bool *valid, *forcing;  ///< [B, M]
  const float* anchors;         ///< [A, 4]
  int64_t M, A;
  MatchOptions options;
  int64_t* match;                   ///< [B, A]
  unsigned long long* best_anchor;  ///< [B, M], zeros: the overlap in the upper half, the anchor counted down below it
  Divisor tiles = blocks_for(A, kThreads);  ///< blocks of one image

  /// Blocks for so many images.
  int64_t blocks(int64_t images) const { return images * tiles; }

  static OSPREY_INLINE bool finite(const float* box) {
    return std::isfinite(box[0]) && std::isfinite(box[1]) && std::isfinite(box[2]) && std::isfinite(box[3]);
  }

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const Split of(block.index, tiles);
    const int64_t image = of.quotient, first_anchor = of.rest * kThreads;
    block.run([&](int thread) {
      shared.best_value[thread] = 0;
      shared.best_row[thread] = -1;
      if (thread == 0) shared.padding = kBoxes;
    });
    for (int64_t first = 0; first < M; first += kBoxes) {
      const int count = static_cast<int>(M - first < kBoxes ? M - first : kBoxes);
      block.run([&](int thread) {
        if (thread >= count) return;
        const float* const box = boxes + (image * M + first + thread) * 4;
        shared.boxes[thread] = corners(box);
        shared.takes_part[thread] = valid[image * M + first + thread] && finite(box);
        shared.best_anchor[thread] = 0;
        if (shared.takes_part[thread]) block.lower(&shared.padding, kBoxes - 1 - thread);
      });
      block.run([&](int thread) {
        const int64_t a = first_anchor + thread;
        if (a >= A) return;
        const Corners anchor = corners(anchors + a * 4);
        float best_value = shared.best_value[thread];
        int best_row = shared.best_row[thread];
        const int rows = kBoxes - shared.padding;
        for (int row = 0; row < rows; ++row) {
          if (!shared.takes_part[row]) continue;
          const float value = matching_overlap(shared.boxes[row], anchor);
          if (best_row < 0 || value > best_value) {
            best_value = value;
            best_row = static_cast<int>(first) + row;
          }
          // A box that overlaps nothing has anchor 0; so the others need not be put forward with an overlap of 0.
          if (options.force_match_for_each_row && (value > 0 || a == 0))
            Block::raise(shared.best_anchor + row, static_cast<unsigned long long>(std::bit_cast<uint32_t>(value))
                                                           << 32 |
                                                       (0xffffffffull - static_cast<unsigned long long>(a)));
        }
        shared.best_value[thread] = best_value;
        shared.best_row[thread] = best_row;
      });
      block.run([&](int thread) {
        const int64_t row = image * M + first + thread;
        if (thread < count && shared.best_anchor[thread] != 0 && forcing[row])
          Block::raise(best_anchor + row, shared.best_anchor[thread]);
        if (thread == 0) shared.padding = kBoxes;
      });
    }
    block.run([&](int thread) {
      if (first_anchor + thread < A)
        match[image * A + first_anchor + thread] = decide(shared.best_value[thread], shared.best_row[thread]);
    });
  }

 private:
  OSPREY_INLINE int64_t decide(float value, int row) const {
    if (row < 0) return kBackground;
    if (!options.use_thresholds || value >= options.matched_threshold) return row;
    return (value < options.unmatched_threshold) == options.negatives_lower_than_unmatched ? kBackground : kIgnore;
  }
};

/// Gives each box the anchor that it claims; the lowest box has an anchor that several claim. A block per image.
struct ForceMatch {
  static constexpr int kThreads = 128;
  using Shared = Nothing;

  const unsigned long long* best_anchor;  ///< [B, M] as `MatchAnchors` left it; 0: the box claims nothing
  int64_t M, A;
  int64_t* match;  ///< [B, A]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const unsigned long long* const best = best_anchor + block.index * M;
    block.run([&](int thread) {
      for (int64_t row = thread; row < M; row += kThreads) {
        bool claims = best[row] != 0;
        for (int64_t lower = 0; claims && lower < row; ++lower)
          claims = best[lower] == 0 || (best[lower] & 0xffffffffull) != (best[row] & 0xffffffffull);
        if (claims) match[block.index * A + static_cast<int64_t>(0xffffffffull - (best[row] & 0xffffffffull))] = row;
      }
    });
  }
};

}  // namespace osprey::kernels::device
