#pragma once
#include <cmath>
#include <limits>

#include "kernels/arithmetic/overlap.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::device {

/// What is no longer a candidate: nothing scores so little and passes a threshold.
constexpr float kDead = -std::numeric_limits<float>::infinity();

/// The best of many candidates, as each thread has found it.
template <int kThreads>
struct BestOf {
  float score[kThreads];
  int64_t at[kThreads];  ///< -1: none

  /// Of equal scores the one that comes first is better.
  OSPREY_INLINE void offer(int thread, float value, int64_t index) {
    if (value == kDead || index < 0) return;
    if (at[thread] >= 0 && !(value > score[thread] || (value == score[thread] && index < at[thread]))) return;
    score[thread] = value;
    at[thread] = index;
  }
  template <class Block>
  OSPREY_INLINE void gather(const Block& block) {
    for (int half = kThreads / 2; half > 0; half /= 2)
      block.run([&](int thread) {
        if (thread < half) offer(thread, score[thread + half], at[thread + half]);
      });
  }
};

/// Decoded boxes, [B, A, Q, 4]: Q is 1, or one for each class.
struct DecodedBoxes {
  const float* values;
  int64_t A, Q;
  OSPREY_INLINE const float* of(int64_t image, int64_t row, int64_t label) const {
    return values + ((image * A + row) * Q + (Q == 1 ? 0 : label)) * 4;
  }
};

/// Keeps the best candidates of one class of one image, one after the other; each suppresses, or makes fade, those that
/// it overlaps. A block per class and image.
struct SuppressClass {
  static constexpr int kThreads = 256;
  struct Shared {
    BestOf<kThreads> best;
    int64_t offsets[kThreads + 1];
    Corners chosen;
  };

  DecodedBoxes boxes;
  const float* scores;                             ///< [B, C, A]
  const int64_t* num_valid;                        ///< [B]: rows from there on are padding
  int64_t C, limit;                                ///< how many are kept at most
  float score_threshold, iou_threshold, exponent;  ///< exponent: -1 / (2 sigma), or 0: overlapping boxes are dropped
  float* left;          ///< [B, C, A] scratch: the scores of the candidates, in the order of their rows
  int32_t* candidates;  ///< [B, C, A] scratch: their rows
  float* kept_scores;   ///< [B, C, limit]
  int32_t* kept_rows;   ///< [B, C, limit]
  int32_t* kept_count;  ///< [B, C]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t image = block.index / C, label = block.index % C, start = block.index * boxes.A;
    const int64_t valid = num_valid[image], rows = valid < 0 ? 0 : valid < boxes.A ? valid : boxes.A;
    const int64_t count = collect(block, shared, start, rows);
    int64_t kept = 0;
    for (; kept < limit; ++kept) {
      block.run([&](int thread) {
        shared.best.at[thread] = -1;
        for (int64_t i = thread; i < count; i += kThreads) {
          if (left[start + i] == kDead) continue;
          if (kept > 0) fade(shared.chosen, image, label, start + i);
          shared.best.offer(thread, left[start + i], i);
        }
      });
      shared.best.gather(block);
      const int64_t chosen = shared.best.at[0];
      block.run([&](int thread) {
        if (thread != 0 || chosen < 0) return;
        const int32_t row = candidates[start + chosen];
        shared.chosen = ordered_corners(boxes.of(image, row, label));
        kept_scores[block.index * limit + kept] = left[start + chosen];
        kept_rows[block.index * limit + kept] = row;
        left[start + chosen] = kDead;
      });
      if (chosen < 0) break;
    }
    block.run([&](int thread) {
      if (thread == 0) kept_count[block.index] = static_cast<int32_t>(kept);
    });
  }

 private:
  /// Writes down the candidates, each thread those of its own run of rows.  returns  how many there are
  template <class Block>
  OSPREY_INLINE int64_t collect(const Block& block, Shared& shared, int64_t start, int64_t rows) const {
    const int64_t size = blocks_for(rows, kThreads);
    const auto end_of = [=](int thread) { return (thread + 1) * size < rows ? (thread + 1) * size : rows; };
    block.run([&](int thread) {
      int64_t number = 0;
      for (int64_t row = thread * size; row < end_of(thread); ++row) number += scores[start + row] > score_threshold;
      shared.offsets[thread + 1] = number;
    });
    block.run([&](int thread) {
      if (thread != 0) return;
      shared.offsets[0] = 0;
      for (int i = 0; i < kThreads; ++i) shared.offsets[i + 1] += shared.offsets[i];
    });
    block.run([&](int thread) {
      int64_t at = start + shared.offsets[thread];
      for (int64_t row = thread * size; row < end_of(thread); ++row) {
        if (!(scores[start + row] > score_threshold)) continue;
        left[at] = scores[start + row];
        candidates[at++] = static_cast<int32_t>(row);
      }
    });
    return shared.offsets[kThreads];
  }

  /// What the box that was chosen last leaves of a candidate.
  OSPREY_INLINE void fade(const Corners& chosen, int64_t image, int64_t label, int64_t at) const {
    const float overlap = suppressing_overlap(ordered_corners(boxes.of(image, candidates[at], label)), chosen);
    if (exponent == 0) {
      if (overlap > iou_threshold) left[at] = kDead;
      return;
    }
    const float score = left[at] * std::exp(exponent * overlap * overlap);
    left[at] = score > score_threshold ? score : kDead;
  }
};

/// Each row of each image by its best class, for suppression among all of them.
struct BestClass {
  DecodedBoxes boxes;
  const float* scores;  ///< [B, C, A]
  int64_t C;
  float* best_scores;  ///< [B, A]
  float* best_boxes;   ///< [B, A, 4]
  int32_t* labels;     ///< [B, A]

  OSPREY_INLINE void operator()(int64_t i) const {
    const int64_t image = i / boxes.A, row = i % boxes.A;
    const float* const own = scores + image * C * boxes.A + row;
    int64_t best = 0;
    for (int64_t c = 1; c < C; ++c)
      if (own[c * boxes.A] > own[best * boxes.A]) best = c;
    best_scores[i] = own[best * boxes.A];
    labels[i] = static_cast<int32_t>(best);
    for (int k = 0; k < 4; ++k) best_boxes[i * 4 + k] = boxes.of(image, row, best)[k];
  }
};

/// The best of what all classes of an image have kept, clipped to the window. A block per image.
struct MergeClasses {
  static constexpr int kThreads = 256;
  struct Shared {
    BestOf<kThreads> best;
  };

  DecodedBoxes boxes;
  const float* windows;   ///< [B, 4]
  const int32_t* labels;  ///< [B, A], or null: the class is that of the list
  int64_t C, limit, total;
  bool drop_empty, change_frame;
  float* kept_scores;                                    ///< [B, C, limit]; those that are taken become kDead
  const int32_t* kept_rows;                              ///< [B, C, limit]
  const int32_t* kept_count;                             ///< [B, C]
  float *result_boxes, *result_scores;                   ///< [B, total, 4], [B, total]
  int64_t *result_classes, *result_rows, *result_count;  ///< [B, total], [B, total], [B]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t image = block.index, start = image * C * limit, count = C * limit;
    const float* const window = windows + image * 4;
    block.run([&](int thread) {
      for (int64_t i = thread; i < count; i += kThreads) {
        float& score = kept_scores[start + i];
        if (i % limit >= kept_count[image * C + i / limit]) {
          score = kDead;
        } else if (drop_empty) {
          float box[4];
          clip(image, i, window, box);
          if (!((box[2] - box[0]) * (box[3] - box[1]) > 0 && score >= 0)) score = kDead;
        }
      }
    });
    int64_t found = 0;
    for (; found < total; ++found) {
      block.run([&](int thread) {
        shared.best.at[thread] = -1;
        for (int64_t i = thread; i < count; i += kThreads) shared.best.offer(thread, kept_scores[start + i], i);
      });
      shared.best.gather(block);
      const int64_t i = shared.best.at[0];
      block.run([&](int thread) {
        if (thread == 0 && i >= 0) write(image, i, window, found);
      });
      if (i < 0) break;
    }
    block.run([&](int thread) {
      if (thread == 0) result_count[image] = found;
    });
  }

 private:
  OSPREY_INLINE int64_t label_of(int64_t image, int64_t i, int64_t row) const {
    return labels != nullptr ? labels[image * boxes.A + row] : i / limit;
  }
  OSPREY_INLINE void clip(int64_t image, int64_t i, const float* window, float* box) const {
    const int64_t row = kept_rows[image * C * limit + i];
    const float* const whole = boxes.of(image, row, label_of(image, i, row));
    for (int k = 0; k < 4; ++k) box[k] = greater(lesser(whole[k], window[2 + k % 2]), window[k % 2]);
  }
  OSPREY_INLINE void write(int64_t image, int64_t i, const float* window, int64_t place) const {
    const int64_t at = image * total + place, row = kept_rows[image * C * limit + i];
    float box[4];
    clip(image, i, window, box);
    for (int k = 0; k < 4; ++k)
      result_boxes[at * 4 + k] = change_frame ? (box[k] - window[k % 2]) / (window[2 + k % 2] - window[k % 2]) : box[k];
    float& score = kept_scores[image * C * limit + i];
    result_scores[at] = score;
    result_classes[at] = label_of(image, i, row);
    result_rows[at] = row;
    score = kDead;
  }
};

}  // namespace osprey::kernels::device
