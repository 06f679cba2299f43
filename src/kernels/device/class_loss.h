#pragma once
#include "kernels/arithmetic/focal.h"
#include "kernels/device/map_rows.h"
#include "kernels/device/slopes.h"

namespace osprey::kernels::device {

/// Logits of [B, A, C], T each, and what they are compared with.
template <class T>
struct ClassLossArguments {
  using Logit = T;
  const T* logits;
  const float* targets;  ///< [B, R, C]
  const float* weights;  ///< [B, R, C] where `weight_per_class`, else [B, R]
  bool weight_per_class;
  const int64_t* row;  ///< [B, A]
  Divisor A;
  int64_t C, R, anchors;  ///< anchors: B * A
  float* sums;            ///< [B, A]
  SlopeOf<T>* slopes;     ///< [B, A, C] or null
};

/// How the classes of a block's anchors are shared: each anchor by so many threads side by side, its lanes, and by each
/// of these so many neighbouring classes at a time. What does not depend on the class is found once for several
/// anchors, no more than there are threads.
template <int kLanesOf, int kWidthOf, int kClassesAhead>
struct ClassShares {
  static constexpr int kThreads = 256, kAtOnce = 5, kLanes = kLanesOf, kWidth = kWidthOf;
  static constexpr int kAtATime = kThreads / kLanes, kAnchors = 4 * kAtATime < kThreads ? 4 * kAtATime : kThreads;
  static constexpr int kStep = kLanes * kWidth;          ///< classes from one piece of a lane to the next
  static constexpr int kAhead = kClassesAhead / kWidth;  ///< pieces that are on their way together

  /// What an anchor is compared with, as the threads of its block find it.
  struct Anchor {
    int64_t row;   ///< the first of its targets
    float weight;  ///< where there is one for all classes
  };
  /// Some classes of a lane; in pieces that lie behind the last class everything is 0.
  template <class T>
  struct Pieces {
    Vector<T, kWidth> logits[kAhead];
    Vector<float, kWidth> targets[kAhead], weights[kAhead];
    bool there[kAhead];
  };

  template <class T>
  static OSPREY_INLINE int anchors_of(const ClassLossArguments<T>& of, int64_t block) {
    const int64_t left = of.anchors - block * kAnchors;
    return static_cast<int>(left < kAnchors ? left : kAnchors);
  }
  template <class T>
  static OSPREY_INLINE Anchor anchor(const ClassLossArguments<T>& of, int64_t number) {
    const int64_t row = of.A.quotient(number) * of.R + of.row[number];
    return {row * of.C, of.weight_per_class ? 0.0f : of.weights[row]};
  }
  /// Calls work(anchor of the block, lane) for all that this thread has a share of.
  template <class Work>
  static OSPREY_INLINE void each(int thread, int anchors, Work work) {
    for (int anchor = thread / kLanes; anchor < anchors; anchor += kAtATime) work(anchor, thread % kLanes);
  }
  /// Calls work(pieces, element, counted from the first logit of the block) until no classes of the lane are left.
  /// anchor  of the block, whose first one has the number `first`
  template <bool kWeights, class T, class Work>
  static OSPREY_INLINE void classes(const ClassLossArguments<T>& of, int64_t first, int anchor, int64_t row, int lane,
                                    Work work) {
    const int count = static_cast<int>(of.C);
    int at = anchor * count + lane * kWidth;
    const T* const logits = of.logits + first * of.C;
    const float *targets = of.targets + lane * kWidth + row,
                *weights = kWeights ? of.weights + lane * kWidth + row : nullptr;
    for (int left = count - lane * kWidth; left > 0;) {
      Pieces<T> pieces;
      OSPREY_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        pieces.there[i] = i == 0 || i * kStep < left;
        pieces.logits[i] = {};
        pieces.targets[i] = pieces.weights[i] = {};
        if (!pieces.there[i]) continue;
        pieces.logits[i] = read<kWidth>(logits + at + i * kStep);
        pieces.targets[i] = read<kWidth>(targets + i * kStep);
        if constexpr (kWeights) pieces.weights[i] = read<kWidth>(weights + i * kStep);
      }
      work(pieces, at);
      left -= kStep * kAhead;
      if (left <= 0) break;
      at += kStep * kAhead;
      targets += kStep * kAhead;
      if constexpr (kWeights) weights += kStep * kAhead;
    }
  }
};

constexpr int64_t kFewClasses = 16;  ///< fewer leave too many of eight lanes without work
using FewClasses = ClassShares<2, 1, 6>;
using PairsOfClasses = ClassShares<8, 2, 12>;  ///< where there is an even number of them
using SingleClasses = ClassShares<8, 1, 6>;

template <class T, class Shares>
struct SigmoidFocal {
  static constexpr int kThreads = Shares::kThreads, kAtOnce = Shares::kAtOnce, kWidth = Shares::kWidth;
  struct Shared {
    typename Shares::Anchor anchors[Shares::kAnchors];
    float sums[Shares::kAnchors * Shares::kLanes];
  };

  ClassLossArguments<T> of;
  FocalForm form;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t first = block.index * Shares::kAnchors;
    const int anchors = Shares::anchors_of(of, block.index);
    block.run([&](int thread) {
      if (thread < anchors) shared.anchors[thread] = Shares::anchor(of, first + thread);
    });
    block.run([&](int thread) {
      with_modulation(form, [&](const auto& modulation) {
        Shares::each(thread, anchors, [&](int anchor, int lane) {
          shared.sums[anchor * Shares::kLanes + lane] =
              of.weight_per_class ? sum<true>(first, anchor, shared.anchors[anchor], lane, modulation)
                                  : sum<false>(first, anchor, shared.anchors[anchor], lane, modulation);
        });
      });
    });
    block.run([&](int thread) {
      if (thread >= anchors) return;
      float sum = 0;
      OSPREY_UNROLL
      for (int lane = 0; lane < Shares::kLanes; ++lane) sum += shared.sums[thread * Shares::kLanes + lane];
      of.sums[first + thread] = sum;
    });
  }

 private:
  /// The loss of the classes of a lane.
  template <bool kWeights, class Modulation>
  OSPREY_INLINE float sum(int64_t first, int number, const typename Shares::Anchor& anchor, int lane,
                          const Modulation& modulation) const {
    const FocalForm of_anchor = form.times(anchor.weight);
    float sum = 0;
    Shares::template classes<kWeights>(of, first, number, anchor.row, lane, [&](const auto& pieces, int at) {
      OSPREY_UNROLL
      for (int i = 0; i < Shares::kAhead; ++i) {
        float slopes[kWidth];
        OSPREY_UNROLL
        for (int k = 0; k < kWidth; ++k) {
          const float x = pieces.logits[i][k];
          float loss;
          focal_element(x, pieces.targets[i][k], sigmoid_parts(x),
                        kWeights ? form.times(pieces.weights[i][k]) : of_anchor, modulation, loss, slopes[k]);
          if (pieces.there[i]) sum += loss;
        }
        if (pieces.there[i] && of.slopes != nullptr) write(of.slopes + first * of.C + at + i * Shares::kStep, slopes);
      }
    });
    return sum;
  }
};

template <class T, class Shares>
struct SoftmaxCrossEntropy {
  static constexpr int kThreads = Shares::kThreads, kAtOnce = Shares::kAtOnce, kWidth = Shares::kWidth;
  /// Of some classes: their largest x, and sums of e^(x - top), of the targets t and of t * (x - top).
  struct Sums {
    float top, total, wanted, along;

    /// The same with another top, which is not below that of any class that counts.
    OSPREY_INLINE Sums below(float other) const {
      const float step = greater_of(top - other, kLowest);  // finite, since there may be no classes: 0 * step is 0
      return {other, total * exponential(step), wanted, along + wanted * step};
    }
  };
  struct Shared {
    typename Shares::Anchor anchors[Shares::kAnchors];
    Sums of_lanes[Shares::kAnchors * Shares::kLanes], of_anchors[Shares::kAnchors];
  };

  ClassLossArguments<T> of;  ///< a weight per anchor
  float inverse_scale;       ///< of the logits

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t first = block.index * Shares::kAnchors;
    const int anchors = Shares::anchors_of(of, block.index);
    block.run([&](int thread) {
      if (thread < anchors) shared.anchors[thread] = Shares::anchor(of, first + thread);
    });
    block.run([&](int thread) {
      Shares::each(thread, anchors, [&](int anchor, int lane) {
        shared.of_lanes[anchor * Shares::kLanes + lane] = sums(first, anchor, shared.anchors[anchor], lane);
      });
    });
    block.run([&](int thread) {
      if (thread >= anchors) return;
      const Sums all = joined(shared.of_lanes + thread * Shares::kLanes);
      of.sums[first + thread] = shared.anchors[thread].weight * (all.wanted * logarithm(all.total) - all.along);
      shared.of_anchors[thread] = all;
    });
    if (of.slopes == nullptr) return;
    block.run([&](int thread) {
      Shares::each(thread, anchors, [&](int anchor, int lane) {
        write_slopes(first, anchor, shared.anchors[anchor], shared.of_anchors[anchor], lane);
      });
    });
  }

 private:
  static constexpr float kLowest = -3.40282347e+38f;  // of what is finite
  static OSPREY_INLINE float greater_of(float a, float b) { return a > b ? a : b; }

  /// Of the classes of a lane.
  OSPREY_INLINE Sums sums(int64_t first, int number, const typename Shares::Anchor& anchor, int lane) const {
    Sums sums{kLowest, 0, 0, 0};
    Shares::template classes<false>(of, first, number, anchor.row, lane, [&](const auto& pieces, int) {
      float top = sums.top;
      OSPREY_UNROLL
      for (int i = 0; i < Shares::kAhead; ++i) {
        OSPREY_UNROLL
        for (int k = 0; k < kWidth; ++k)
          if (pieces.there[i]) top = greater_of(top, pieces.logits[i][k] * inverse_scale);
      }
      sums = sums.below(top);
      OSPREY_UNROLL
      for (int i = 0; i < Shares::kAhead; ++i) {
        OSPREY_UNROLL
        for (int k = 0; k < kWidth; ++k) {
          const float below = pieces.logits[i][k] * inverse_scale - top, target = pieces.targets[i][k];
          if (!pieces.there[i]) continue;
          sums.total += exponential(below);
          sums.wanted += target;
          sums.along += target * below;
        }
      }
    });
    return sums;
  }

  static OSPREY_INLINE Sums joined(const Sums* of_lanes) {
    float top = kLowest;
    for (int lane = 0; lane < Shares::kLanes; ++lane) top = greater_of(top, of_lanes[lane].top);
    Sums all{top, 0, 0, 0};
    for (int lane = 0; lane < Shares::kLanes; ++lane) {
      const Sums one = of_lanes[lane].below(top);
      all.total += one.total;
      all.wanted += one.wanted;
      all.along += one.along;
    }
    return all;
  }

  OSPREY_INLINE void write_slopes(int64_t first, int number, const typename Shares::Anchor& anchor, const Sums& all,
                                  int lane) const {
    const float factor = anchor.weight * inverse_scale, share = factor / all.total;
    Shares::template classes<false>(of, first, number, anchor.row, lane, [&](const auto& pieces, int at) {
      OSPREY_UNROLL
      for (int i = 0; i < Shares::kAhead; ++i) {
        float slopes[kWidth];
        OSPREY_UNROLL
        for (int k = 0; k < kWidth; ++k)
          slopes[k] =
              share * exponential(pieces.logits[i][k] * inverse_scale - all.top) - factor * pieces.targets[i][k];
        if (pieces.there[i]) write(of.slopes + first * of.C + at + i * Shares::kStep, slopes);
      }
    });
  }
};

}  // namespace osprey::kernels::device
