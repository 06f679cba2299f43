#pragma once
#include <cmath>
#include <limits>

#include "kernels/arithmetic/overlap.h"
#include "kernels/device/best_first.h"

namespace osprey::kernels::device {

/// What is no longer a candidate: nothing scores so little and passes a threshold.
constexpr float kDead = -std::numeric_limits<float>::infinity();

/// Decoded boxes, [B, A, Q, 4]: Q is 1, or one for each class.
struct DecodedBoxes {
  const float* values;
  int64_t A, Q;
  /// `count`, as far as there are so many.
  OSPREY_INLINE int64_t valid_rows(int64_t count) const { return count < 0 ? 0 : count < A ? count : A; }
  OSPREY_INLINE const float* of(int64_t image, int64_t row, int64_t label) const {
    return values + ((image * A + row) * Q + (Q == 1 ? 0 : label)) * 4;
  }
};

/// What is kept of a class of an image, best first.
struct KeptOfClasses {
  float* scores;   ///< [B, C, limit]
  int32_t* rows;   ///< [B, C, limit]
  int32_t* count;  ///< [B, C]
};

/// Keeps the best candidates of one class of one image, one after the other; each suppresses those that it overlaps. A
/// block per class and image, with a candidate for each thread.
struct SuppressClass {
  static constexpr int kThreads = BestFirst::kThreads;
  struct Shared {
    BestFirst best;
    Corners own[kThreads];  ///< the box of each thread
    int remains[kThreads];  ///< whether nothing has suppressed it
    int first[2];           ///< the first of those that remain, in turns; kThreads where none does, and between batches
  };

  DecodedBoxes boxes;
  const float* scores;       ///< [B, C, A]
  const int64_t* num_valid;  ///< [B]: rows from there on are padding
  int64_t C, limit;          ///< how many are kept at most
  float score_threshold, iou_threshold;
  KeptOfClasses kept;
  Corners* kept_corners;  ///< [B, C, limit] scratch

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t image = block.index / C, label = block.index % C, to = block.index * limit;
    const float* const own_scores = scores + block.index * boxes.A;
    const int64_t rows = boxes.valid_rows(num_valid[image]);
    int64_t number = 0;  // of those kept
    shared.best.start(block);
    block.run([&](int thread) {
      if (thread == 0) shared.first[0] = shared.first[1] = kThreads;
    });
    while (number < limit) {
      const int found = shared.best.next(block, own_scores, rows, score_threshold);
      if (found == 0) break;
      for (int start = 0; start < found && number < limit; start += kThreads) {
        block.run([&](int thread) {
          shared.remains[thread] = start + thread < found;
          if (shared.remains[thread]) {
            shared.own[thread] = ordered_corners(boxes.of(image, row(shared, start + thread), label));
            for (int64_t k = 0; k < number && shared.remains[thread]; ++k)
              shared.remains[thread] = !suppressed(shared.own[thread], kept_corners[to + k]);
          }
        });
        int turn = 0;
        for (; number < limit; ++number, turn ^= 1) {
          block.run([&](int thread) {
            if (shared.remains[thread]) block.lower(&shared.first[turn], thread);
          });
          const int first = shared.first[turn];
          if (first == kThreads) break;
          block.run([&](int thread) {
            if (thread == 0) shared.first[turn ^ 1] = kThreads;
            if (thread == first) {
              kept.scores[to + number] = BestFirst::score_of(shared.best.batch[start + thread]);
              kept.rows[to + number] = row(shared, start + thread);
              kept_corners[to + number] = shared.own[thread];
              shared.remains[thread] = false;
            } else if (shared.remains[thread]) {
              shared.remains[thread] = !suppressed(shared.own[thread], shared.own[first]);
            }
          });
        }
        block.run([&](int thread) {
          if (thread == 0) shared.first[turn ^ 1] = kThreads;
        });
      }
    }
    block.run([&](int thread) {
      if (thread == 0) kept.count[block.index] = static_cast<int32_t>(number);
    });
  }

 private:
  static OSPREY_INLINE int32_t row(const Shared& shared, int number) {
    return static_cast<int32_t>(BestFirst::index_of(shared.best.batch[number]));
  }
  OSPREY_INLINE bool suppressed(const Corners& box, const Corners& by) const {
    return suppresses(suppressing_overlap(box, by), iou_threshold);
  }
};

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

/// The same where boxes are not suppressed but fade, and with each that is kept change their order.
struct FadeClass {
  static constexpr int kThreads = 256;
  struct Shared {
    BestOf<kThreads> best;
    int64_t offsets[kThreads + 1];
    Corners chosen;
  };

  DecodedBoxes boxes;
  const float* scores;              ///< [B, C, A]
  const int64_t* num_valid;         ///< [B]: rows from there on are padding
  int64_t C, limit;                 ///< how many are kept at most
  float score_threshold, exponent;  ///< exponent: -1 / (2 sigma)
  KeptOfClasses kept;
  float* left;          ///< [B, C, A] scratch: the scores of the candidates, in the order of their rows
  int32_t* candidates;  ///< [B, C, A] scratch: their rows

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t image = block.index / C, label = block.index % C, start = block.index * boxes.A;
    const int64_t count = collect(block, shared, start, boxes.valid_rows(num_valid[image]));
    int64_t number = 0;  // of those kept
    for (; number < limit; ++number) {
      block.run([&](int thread) {
        shared.best.at[thread] = -1;
        for (int64_t i = thread; i < count; i += kThreads) {
          if (left[start + i] == kDead) continue;
          if (number > 0) fade(shared.chosen, image, label, start + i);
          shared.best.offer(thread, left[start + i], i);
        }
      });
      shared.best.gather(block);
      const int64_t chosen = shared.best.at[0];
      block.run([&](int thread) {
        if (thread != 0 || chosen < 0) return;
        const int32_t row = candidates[start + chosen];
        shared.chosen = ordered_corners(boxes.of(image, row, label));
        kept.scores[block.index * limit + number] = left[start + chosen];
        kept.rows[block.index * limit + number] = row;
        left[start + chosen] = kDead;
      });
      if (chosen < 0) break;
    }
    block.run([&](int thread) {
      if (thread == 0) kept.count[block.index] = static_cast<int32_t>(number);
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
  static constexpr int kThreads = BestFirst::kThreads;
  struct Shared {
    BestFirst best;
  };

  DecodedBoxes boxes;
  const float* windows;   ///< [B, 4]
  const int32_t* labels;  ///< [B, A], or null: the class is that of the list
  int64_t C, limit, total;
  bool drop_empty, change_frame;
  KeptOfClasses kept;                                    ///< its scores become kDead where nothing is kept
  float *result_boxes, *result_scores;                   ///< [B, total, 4], [B, total]
  int64_t *result_classes, *result_rows, *result_count;  ///< [B, total], [B, total], [B]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t image = block.index, start = image * C * limit, count = C * limit;
    const float* const window = windows + image * 4;
    block.run([&](int thread) {
      for (int64_t i = thread; i < count; i += kThreads) {
        float& score = kept.scores[start + i];
        if (i % limit >= kept.count[image * C + i / limit]) {
          score = kDead;
        } else if (drop_empty) {
          float box[4];
          clip(image, i, window, box);
          if (!((box[2] - box[0]) * (box[3] - box[1]) > 0 && score >= 0)) score = kDead;
        }
      }
    });
    int64_t number = 0;  // of results
    shared.best.start(block);
    while (number < total) {
      const int found = shared.best.next(block, kept.scores + start, count, kDead);
      if (found == 0) break;
      const int64_t taken = number + found < total ? found : total - number;
      block.run([&](int thread) {
        for (int64_t i = thread; i < taken; i += kThreads) write(image, shared.best.batch[i], window, number + i);
      });
      number += taken;
    }
    block.run([&](int thread) {
      if (thread == 0) result_count[image] = number;
    });
  }

 private:
  OSPREY_INLINE int64_t label_of(int64_t image, int64_t i, int64_t row) const {
    return labels != nullptr ? labels[image * boxes.A + row] : i / limit;
  }
  OSPREY_INLINE void clip(int64_t image, int64_t i, const float* window, float* box) const {
    const int64_t row = kept.rows[image * C * limit + i];
    const float* const whole = boxes.of(image, row, label_of(image, i, row));
    for (int k = 0; k < 4; ++k) box[k] = greater(lesser(whole[k], window[2 + k % 2]), window[k % 2]);
  }
  OSPREY_INLINE void write(int64_t image, uint64_t candidate, const float* window, int64_t place) const {
    const int64_t i = BestFirst::index_of(candidate);
    const int64_t at = image * total + place, row = kept.rows[image * C * limit + i];
    float box[4];
    clip(image, i, window, box);
    for (int k = 0; k < 4; ++k)
      result_boxes[at * 4 + k] = change_frame ? (box[k] - window[k % 2]) / (window[2 + k % 2] - window[k % 2]) : box[k];
    result_scores[at] = BestFirst::score_of(candidate);
    result_classes[at] = label_of(image, i, row);
    result_rows[at] = row;
  }
};

}  // namespace osprey::kernels::device
