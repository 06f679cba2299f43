#pragma once
#include <bit>
#include <cstdint>

#include "kernels/device/map_rows.h"

namespace osprey::kernels::device {

/// Takes the best of many candidates out of their scores, a batch at a time, for a block of threads that goes through
/// them in that order. The scores are read once for each digit that tells the batch from the rest, once or twice as a
/// rule, and once to take it out; they are not written.
///
/// A candidate is a number: the bits of its score, in an order of unsigned numbers, above those of its index turned
/// around. The larger number is better, and of equal scores the lower index; no two are the same.
struct BestFirst {
  static constexpr int kThreads = 256, kDigits = 256, kBitsOfDigit = 8;
  static constexpr int kMost = 1024;  ///< candidates of a batch
  static_assert(kThreads == kDigits, "a digit for each thread");

  uint64_t batch[kMost];  ///< best first

  static OSPREY_INLINE uint64_t candidate(float score, int64_t index) {
    const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);  // one zero
    const uint32_t ordered = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(ordered) << 32 | ~static_cast<uint32_t>(index);
  }
  static OSPREY_INLINE float score_of(uint64_t candidate) {
    const auto ordered = static_cast<uint32_t>(candidate >> 32);
    return std::bit_cast<float>(ordered >> 31 != 0 ? ordered & 0x7fffffffu : ~ordered);
  }
  static OSPREY_INLINE int64_t index_of(uint64_t candidate) { return ~static_cast<uint32_t>(candidate); }

  /// From the best one on.
  template <class Block>
  OSPREY_INLINE void start(const Block& block) {
    block.run([&](int thread) {
      if (thread == 0) before_ = ~uint64_t{0};
    });
  }

  /// The best `kMost` that come after the batch before, or at least half as many where that is sooner known. Candidates
  /// are scores above the threshold.  returns  how many there are now; 0: none is left
  template <class Block>
  OSPREY_INLINE int next(const Block& block, const float* scores, int64_t count, float threshold) {
    find_last(block, scores, count, threshold);
    block.run([&](int thread) {
      const uint64_t last = last_;
      for_candidates(thread, scores, count, threshold, [&](uint64_t candidate) {
        if (candidate >= last) batch[block.add(&found_, 1)] = candidate;
      });
    });
    const int found = found_;
    sort(block, found);
    block.run([&](int thread) {
      if (thread == 0 && found > 0) before_ = batch[found - 1];
    });
    return found;
  }

 private:
  /// Calls work(candidate) for every kThreads-th of those that come after the batch before.
  template <class Work>
  OSPREY_INLINE void for_candidates(int thread, const float* scores, int64_t count, float threshold, Work work) const {
    const uint64_t before = before_;
    struct {
      int64_t at, step;
    } const own{thread, kThreads};
    for_rows<4>(
        own, 0, (count - thread + kThreads - 1) / kThreads, [=](int64_t i) { return scores[i]; },
        [&](int64_t i, float score) {
          if (!(score > threshold)) return;
          if (const uint64_t one = candidate(score, i); one < before) work(one);
        });
  }

  /// The last one of the batch, digit by digit: how many candidates there are of each digit says at which the room
  /// ends; those of better digits are in the batch, those of that digit are told apart by the next one.
  template <class Block>
  OSPREY_INLINE void find_last(const Block& block, const float* scores, int64_t count, float threshold) {
    block.run([&](int thread) {
      if (thread == 0) {
        digits_[0] = {0, kMost};
        found_ = 0;
      }
    });
    for (int shift = 64 - kBitsOfDigit, turn = 0;; shift -= kBitsOfDigit, turn ^= 1) {
      block.run([&](int thread) { counts_[0][thread] = 0; });
      block.run([&](int thread) {
        const uint64_t known = digits_[turn].known;
        for_candidates(thread, scores, count, threshold, [&](uint64_t candidate) {
          if (above(candidate, shift) == known) block.add(&counts_[0][candidate >> shift & (kDigits - 1)], 1);
        });
      });
      add_from_above(block);
      block.run([&](int digit) {
        const auto [known, room] = digits_[turn];
        const int better = digit + 1 < kDigits ? counts_[0][digit + 1] : 0;
        if (digit == 0 && counts_[0][0] <= room) {  // there is room for all
          last_ = shift + kBitsOfDigit < 64 ? known << (shift + kBitsOfDigit) : 0;
          decided_ = true;
        } else if (better <= room && counts_[0][digit] > room) {
          digits_[turn ^ 1] = {known << kBitsOfDigit | digit, room - better};
          last_ = ((known << kBitsOfDigit | digit) + 1) << shift;
          decided_ = room - better <= kMost / 2;
        }
      });
      if (decided_) return;
    }
  }
  /// The digits above the one that begins at `shift`.
  static OSPREY_INLINE uint64_t above(uint64_t candidate, int shift) {
    return shift + kBitsOfDigit < 64 ? candidate >> (shift + kBitsOfDigit) : 0;
  }
  /// Of each digit how many there are of it and of all better ones.
  template <class Block>
  OSPREY_INLINE void add_from_above(const Block& block) {
    int from = 0;
    for (int step = 1; step < kDigits; step *= 2, from ^= 1)
      block.run([&](int digit) {
        counts_[from ^ 1][digit] = counts_[from][digit] + (digit + step < kDigits ? counts_[from][digit + step] : 0);
      });
    static_assert(std::bit_width(unsigned{kDigits - 1}) % 2 == 0, "ends where it began");
  }

  /// By a bitonic network: Batcher, "Sorting networks and their applications", AFIPS 1968.
  template <class Block>
  OSPREY_INLINE void sort(const Block& block, int found) {
    int size = 1;
    while (size < found) size *= 2;
    block.run([&](int thread) {
      for (int i = found + thread; i < size; i += kThreads) batch[i] = 0;
    });
    for (int run = 2; run <= size; run *= 2)
      for (int apart = run / 2; apart > 0; apart /= 2)
        block.run([&](int thread) {
          for (int pair = thread; pair < size / 2; pair += kThreads) {
            const int i = pair / apart * 2 * apart + pair % apart, j = i + apart;
            const bool falls = (i & run) == 0;
            if ((batch[i] < batch[j]) != falls) continue;
            const uint64_t other = batch[i];
            batch[i] = batch[j];
            batch[j] = other;
          }
        });
  }

  struct Digits {
    uint64_t known;  ///< of the last one of the batch
    int room;        ///< for candidates that have them
  };
  int counts_[2][kDigits];
  uint64_t before_, last_;  ///< the last one of the batch before, and of this one
  Digits digits_[2];
  int found_;
  bool decided_;
};

}  // namespace osprey::kernels::device
