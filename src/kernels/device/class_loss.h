#pragma once
#include <type_traits>

#include "kernels/arithmetic/focal.h"
#include "kernels/device/map_rows.h"

namespace osprey::kernels::device {

/// The type of the slopes of logits of type T. They are multiplied by the loss scale of float16 later, and would vanish
/// before that.
template <class T>
using SlopeOf = std::conditional_t<std::is_same_v<T, Float16>, float, T>;

/// Logits of [B, A, C], T each, and what they are compared with.
template <class T>
struct ClassLossArguments {
  const T* logits;
  const float* targets;  ///< [B, R, C]
  const float* weights;  ///< [B, R, C] where `weight_per_class`, else [B, R]
  bool weight_per_class;
  const int64_t* row;        ///< [B, A]
  int64_t A, C, R, anchors;  ///< anchors: B * A
  float* sums;               ///< [B, A]
  SlopeOf<T>* slopes;        ///< [B, A, C] or null
};

/// A block has so many anchors, each worked on by so many threads side by side.
constexpr int kAnchorsOfBlock = 32, kLanes = 8;

/// Sums the values of the lanes of each anchor, in their order, into that of the first.
template <class Block>
OSPREY_INLINE void sum_lanes(const Block& block, float* values) {
  block.run([=](int thread) {
    if (thread % kLanes != 0) return;
    float sum = 0;
    for (int lane = 0; lane < kLanes; ++lane) sum += values[thread + lane];
    values[thread] = sum;
  });
}

template <class T>
struct SigmoidFocal {
  static constexpr int kThreads = kAnchorsOfBlock * kLanes;
  struct Shared {
    float sums[kThreads];
  };

  ClassLossArguments<T> of;
  FocalForm form;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      const int64_t anchor = block.index * kAnchorsOfBlock + thread / kLanes;
      shared.sums[thread] = 0;
      if (anchor >= of.anchors) return;
      with_modulation(form,
                      [&](auto modulation) { shared.sums[thread] = classes(anchor, thread % kLanes, modulation); });
    });
    sum_lanes(block, shared.sums);
    block.run([&](int thread) {
      const int64_t anchor = block.index * kAnchorsOfBlock + thread / kLanes;
      if (thread % kLanes == 0 && anchor < of.anchors) of.sums[anchor] = shared.sums[thread];
    });
  }

 private:
  /// The loss of every kLanes-th class of an anchor.
  template <class Modulation>
  OSPREY_INLINE float classes(int64_t anchor, int lane, const Modulation& modulation) const {
    constexpr int kAhead = 4;  // classes that are on their way together
    const int64_t row = Split(anchor, of.A).quotient * of.R + of.row[anchor];
    const int count = static_cast<int>(of.C);
    if (count == 0) return 0;
    const T* const logits = of.logits + anchor * of.C;
    const float *const targets = of.targets + row * of.C, *const weights = of.weight_per_class ? of.weights + row * of.C
                                                                                               : of.weights + row;
    SlopeOf<T>* const slopes = of.slopes != nullptr ? of.slopes + anchor * of.C : nullptr;
    const float weight_of_anchor = weights[0];
    float sum = 0;
    for (int first = lane; first < count; first += kLanes * kAhead) {
      float x[kAhead], target[kAhead], weight[kAhead];
      OSPREY_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const int c = first + i * kLanes;
        weight[i] = weight_of_anchor;
        if (c >= count) continue;
        x[i] = load(logits + c);
        target[i] = targets[c];
        if (of.weight_per_class) weight[i] = weights[c];
      }
      OSPREY_UNROLL
      for (int i = 0; i < kAhead; ++i) {
        const int c = first + i * kLanes;
        if (c >= count) continue;
        float loss, slope;
        const SigmoidParts parts = sigmoid_parts(x[i]);
        if (target[i] == 0)
          focal_element_of_absent(x[i], parts, form, modulation, loss, slope);
        else
          focal_element(x[i], target[i], parts, form, modulation, loss, slope);
        sum += weight[i] * loss;
        if (slopes != nullptr) store(slopes + c, weight[i] * slope);
      }
    }
    return sum;
  }
};

/// Gradients of logits, or of boxes: the slopes of each anchor times the gradient of its loss. Of some neighbours.
template <class T>
struct SlopesTimesFactors {
  static constexpr int kWidth = 16 / sizeof(SlopeOf<T>);
  const SlopeOf<T>* slopes;  ///< [rows, K]
  const float* factors;      ///< [rows]
  int64_t K, count;          ///< count: rows * K
  bool at_once;              ///< whether kWidth of either may be read or written at once
  T* gradients;              ///< [rows, K]; may be the slopes

  OSPREY_INLINE void operator()(int64_t number) const {
    const int64_t first = number * kWidth;
    if (!at_once || K < kWidth || first + kWidth > count) {
      const int64_t end = first + kWidth < count ? first + kWidth : count;
      for (int64_t i = first; i < end; ++i) store(gradients + i, load(slopes + i) * factors[Split(i, K).quotient]);
      return;
    }
    const auto own = read<kWidth>(slopes + first);
    const Split start(first, K);
    const int of_row = static_cast<int>(K - start.rest < kWidth ? K - start.rest : kWidth);  // the others: of the next
    const float factor = factors[start.quotient], next = of_row < kWidth ? factors[start.quotient + 1] : 0.0f;
    float values[kWidth];
    OSPREY_UNROLL
    for (int i = 0; i < kWidth; ++i) values[i] = own[i] * (i < of_row ? factor : next);
    write(gradients + first, values);
  }
};

template <class T>
struct SoftmaxCrossEntropy {
  static constexpr int kThreads = kAnchorsOfBlock * kLanes;
  struct Shared {
    float top[kThreads], total[kThreads], wanted[kThreads], along[kThreads];
  };

  ClassLossArguments<T> of;  ///< a weight per anchor
  float inverse_scale;       ///< of the logits

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      const int64_t anchor = block.index * kAnchorsOfBlock + thread / kLanes;
      if (anchor >= of.anchors) return;
      float top = load(of.logits + anchor * of.C);
      for (int64_t c = thread % kLanes; c < of.C; c += kLanes)
        top = greater_of(top, load(of.logits + anchor * of.C + c));
      shared.top[thread] = top;
    });
    block.run([&](int thread) {
      const int64_t anchor = block.index * kAnchorsOfBlock + thread / kLanes;
      shared.total[thread] = shared.wanted[thread] = shared.along[thread] = 0;
      if (anchor >= of.anchors) return;
      const int first = thread - thread % kLanes;
      float top = shared.top[first];
      for (int lane = 1; lane < kLanes; ++lane) top = greater_of(top, shared.top[first + lane]);
      top *= inverse_scale;
      const int64_t row = Split(anchor, of.A).quotient * of.R + of.row[anchor];
      for (int64_t c = thread % kLanes; c < of.C; c += kLanes) {
        const float below = load(of.logits + anchor * of.C + c) * inverse_scale - top,
                    target = of.targets[row * of.C + c];
        shared.total[thread] += exponential(below);
        shared.wanted[thread] += target;
        shared.along[thread] += target * below;
      }
    });
    sum_lanes(block, shared.total);
    sum_lanes(block, shared.wanted);
    sum_lanes(block, shared.along);
    block.run([&](int thread) {
      const int64_t anchor = block.index * kAnchorsOfBlock + thread / kLanes;
      if (anchor >= of.anchors) return;
      const int first = thread - thread % kLanes;
      const int64_t row = Split(anchor, of.A).quotient * of.R + of.row[anchor];
      const float weight = of.weights[row], total = shared.total[first], wanted = shared.wanted[first];
      if (thread == first) of.sums[anchor] = weight * (wanted * logarithm(total) - shared.along[first]);
      if (of.slopes == nullptr) return;
      float top = shared.top[first];
      for (int lane = 1; lane < kLanes; ++lane) top = greater_of(top, shared.top[first + lane]);
      top *= inverse_scale;
      const float factor = weight * inverse_scale, share = factor / total;
      for (int64_t c = thread % kLanes; c < of.C; c += kLanes) {
        const int64_t at = anchor * of.C + c;
        const float below = load(of.logits + at) * inverse_scale - top;
        store(of.slopes + at, share * exponential(below) - factor * of.targets[row * of.C + c]);
      }
    });
  }

 private:
  static OSPREY_INLINE float greater_of(float a, float b) { return a > b ? a : b; }
};

}  // namespace osprey::kernels::device
