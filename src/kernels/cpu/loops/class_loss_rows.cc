#include "kernels/cpu/loops/class_loss_rows.h"

#include <cstring>

#include "kernels/arithmetic/elementary.h"
#include "kernels/cpu/loops/dispatch.h"

namespace osprey::kernels::cpu {
namespace {

/// Elements that are computed at a time, whatever anchors they belong to, so that few classes fill the registers, too.
constexpr int64_t kChunk = 1024;

/// Sums and maxima are made in so many lanes, which does not depend on the machine.
constexpr int64_t kLanes = 16;

/// start, then `take` of it and every value, lane by lane.
template <class Take>
OSPREY_INLINE float reduce(const float* values, int64_t count, float start, Take take) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = start;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = take(lanes[lane], values[i + lane]);
  for (; i < count; ++i) lanes[0] = take(lanes[0], values[i]);
  float result = lanes[0];
  for (int64_t lane = 1; lane < kLanes; ++lane) result = take(result, lanes[lane]);
  return result;
}

struct Larger {
  OSPREY_INLINE float operator()(float a, float b) const { return a > b ? a : b; }
};
struct Sum {
  OSPREY_INLINE float operator()(float a, float b) const { return a + b; }
};

/// In two loops, since each step of one would be so long that the machine could not begin the next ones meanwhile.
template <class Modulation>
OSPREY_INLINE void elements(const float* __restrict logits, const float* __restrict targets, int64_t count,
                            const FocalForm& form, Modulation modulation, float* __restrict losses,
                            float* __restrict slopes) {
  float e[kChunk], inverse[kChunk];
  for (int64_t i = 0; i < count; ++i) {
    const SigmoidParts parts = sigmoid_parts(logits[i]);
    e[i] = parts.e;
    inverse[i] = parts.inverse;
  }
  for (int64_t i = 0; i < count; ++i)
    focal_element(logits[i], targets[i], {e[i], inverse[i], logits[i] + 0.0f}, form, modulation, losses[i], slopes[i]);
}

template <class Modulation>
OSPREY_INLINE void focal(const float* __restrict logits, const TargetRows& rows, int64_t anchors, int64_t depth,
                         const FocalForm& form, Modulation modulation, float* __restrict sums,
                         float* __restrict slopes) {
  float targets[kChunk], losses[kChunk], scratch[kChunk];
  int64_t anchor = 0;  // of the element that comes next
  int64_t c = 0;       // and its class
  float sum = 0;       // of what came before it in its anchor
  for (int64_t first = 0; first < anchors * depth; first += kChunk) {
    const int64_t count = anchors * depth - first < kChunk ? anchors * depth - first : kChunk;
    for (int64_t i = 0, a = anchor, from = c; i < count; ++a, from = 0) {
      const int64_t number = depth - from < count - i ? depth - from : count - i;
      std::memcpy(targets + i, rows.targets + rows.row[a] * depth + from, static_cast<size_t>(number) * sizeof(float));
      i += number;
    }
    float* const slope = slopes != nullptr ? slopes + first : scratch;
    elements(logits + first, targets, count, form, modulation, losses, slope);
    for (int64_t i = 0; i < count;) {
      const int64_t end = i + (depth - c) < count ? i + (depth - c) : count;
      if (rows.weight_per_class) {
        const float* const weights = rows.weights + rows.row[anchor] * depth + c - i;
        for (int64_t j = i; j < end; ++j) {
          losses[j] *= weights[j];
          slope[j] *= weights[j];
        }
        sum += reduce(losses + i, end - i, 0.0f, Sum{});
      } else {
        const float weight = rows.weights[rows.row[anchor]];
        for (int64_t j = i; j < end; ++j) slope[j] *= weight;
        sum += weight * reduce(losses + i, end - i, 0.0f, Sum{});
      }
      c += end - i;
      i = end;
      if (c == depth) {
        sums[anchor++] = sum;
        sum = 0;
        c = 0;
      }
    }
  }
}

OSPREY_INLINE void any_focal(const float* logits, const TargetRows& rows, int64_t anchors, int64_t depth,
                             const FocalForm& form, float* sums, float* slopes) {
  with_modulation(
      form, [&](auto modulation) __attribute__((always_inline)) {
        focal(logits, rows, anchors, depth, form, modulation, sums, slopes);
      });
}

OSPREY_INLINE void softmax(const float* __restrict logits, const TargetRows& rows, int64_t anchors, int64_t depth,
                           float inverse_scale, float* __restrict sums, float* __restrict slopes) {
  float powers[kChunk], products[kChunk];
  for (int64_t a = 0; a < anchors; ++a) {
    const float* const x = logits + a * depth;
    const float* const target = rows.targets + rows.row[a] * depth;
    const float weight = rows.weights[rows.row[a]];
    const float top = inverse_scale * reduce(x, depth, x[0], Larger{});
    float total = 0, wanted = 0, along = 0;  // of e^(x - top), of the targets, of target * (x - top)
    for (int64_t first = 0; first < depth; first += kChunk) {
      const int64_t count = depth - first < kChunk ? depth - first : kChunk;
      for (int64_t i = 0; i < count; ++i) {
        const float below = x[first + i] * inverse_scale - top;
        powers[i] = exponential(below);
        products[i] = target[first + i] * below;
      }
      if (slopes != nullptr)
        for (int64_t i = 0; i < count; ++i) slopes[a * depth + first + i] = powers[i];
      total += reduce(powers, count, 0.0f, Sum{});
      along += reduce(products, count, 0.0f, Sum{});
      wanted += reduce(target + first, count, 0.0f, Sum{});
    }
    sums[a] = weight * (wanted * logarithm(total) - along);
    if (slopes == nullptr) continue;
    const float factor = weight * inverse_scale, share = factor / total;
    for (int64_t c = 0; c < depth; ++c) slopes[a * depth + c] = slopes[a * depth + c] * share - factor * target[c];
  }
}

}  // namespace

OSPREY_DISPATCH(sigmoid_focal_rows, any_focal,
                (const float* logits, const TargetRows& rows, int64_t anchors, int64_t depth, const FocalForm& form,
                 float* sums, float* slopes),
                logits, rows, anchors, depth, form, sums, slopes)
OSPREY_DISPATCH(softmax_rows, softmax,
                (const float* logits, const TargetRows& rows, int64_t anchors, int64_t depth, float inverse_scale,
                 float* sums, float* slopes),
                logits, rows, anchors, depth, inverse_scale, sums, slopes)

}  // namespace osprey::kernels::cpu
