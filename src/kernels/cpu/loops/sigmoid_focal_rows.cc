#include "kernels/cpu/loops/sigmoid_focal_rows.h"

#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/exponential.h"

namespace osprey::kernels::cpu {
namespace {

/// Elements that are computed at a time, whatever anchors they belong to, so that few classes fill the registers, too.
constexpr int64_t kChunk = 1024;

/// miss^gamma and its derivative.
struct One {
  OSPREY_INLINE void operator()(float, float& power, float& slope) const { power = 1.0f, slope = 0.0f; }
};
struct Linear {
  OSPREY_INLINE void operator()(float miss, float& power, float& slope) const { power = miss, slope = 1.0f; }
};
struct Square {
  OSPREY_INLINE void operator()(float miss, float& power, float& slope) const {
    power = miss * miss;
    slope = 2.0f * miss;
  }
};
struct Power {
  float gamma;
  OSPREY_INLINE void operator()(float miss, float& power, float& slope) const {
    miss = miss < 1.17549435e-38f ? 1.17549435e-38f : miss;
    power = exponential(gamma * logarithm(miss));
    slope = gamma * power / miss;
  }
};

template <class Modulation>
OSPREY_INLINE void elements(const float* __restrict logits, const float* __restrict targets, int64_t count,
                            const FocalForm& form, Modulation modulation, float* __restrict losses,
                            float* __restrict slopes) {
  const float negative = form.negative, difference = form.positive - form.negative;
  for (int64_t i = 0; i < count; ++i) {
    const float x = logits[i], t = targets[i];
    const float size = x < 0.0f ? -x : x;
    const float e = exponential(-size);
    const float large = 1.0f / (1.0f + e), small = e * large;  // sigmoid of |x| and of -|x|
    const float p = x < 0.0f ? small : large, q = x < 0.0f ? large : small;
    const float entropy = (x < 0.0f ? 0.0f : x) - x * t + log_one_plus(e);
    const float miss = t * q + (1.0f - t) * p;
    float power, power_slope;
    modulation(miss, power, power_slope);
    const float factor = negative + t * difference;
    losses[i] = factor * entropy * power;
    slopes[i] = factor * ((p - t) * power + entropy * power_slope * (1.0f - 2.0f * t) * p * q);
  }
}

template <class Modulation>
OSPREY_INLINE void anchors(const float* __restrict logits, const float* __restrict targets,
                           const float* __restrict weights, bool weight_per_class, int64_t rows, int64_t depth,
                           const FocalForm& form, Modulation modulation, float* __restrict sums,
                           float* __restrict slopes) {
  float losses[kChunk], scratch[kChunk];
  int64_t row = 0;  // of the element that comes next
  int64_t c = 0;    // and its class
  float sum = 0;    // of what came before it in its row
  for (int64_t first = 0; first < rows * depth; first += kChunk) {
    const int64_t count = rows * depth - first < kChunk ? rows * depth - first : kChunk;
    float* const slope = slopes != nullptr ? slopes + first : scratch;
    elements(logits + first, targets + first, count, form, modulation, losses, slope);
    for (int64_t i = 0; i < count;) {
      const int64_t end = i + (depth - c) < count ? i + (depth - c) : count;
      if (weight_per_class) {
        for (int64_t j = i; j < end; ++j) {
          sum += losses[j] * weights[first + j];
          slope[j] *= weights[first + j];
        }
      } else {
        const float weight = weights[row];
        float part = 0;
        for (int64_t j = i; j < end; ++j) part += losses[j];
        for (int64_t j = i; j < end; ++j) slope[j] *= weight;
        sum += weight * part;
      }
      c += end - i;
      i = end;
      if (c == depth) {
        sums[row++] = sum;
        sum = 0;
        c = 0;
      }
    }
  }
}

OSPREY_INLINE void any_form(const float* logits, const float* targets, const float* weights, bool weight_per_class,
                            int64_t rows, int64_t depth, const FocalForm& form, float* sums, float* slopes) {
  const auto run = [&](auto modulation) __attribute__((always_inline)) {
    anchors(logits, targets, weights, weight_per_class, rows, depth, form, modulation, sums, slopes);
  };
  if (form.gamma == 0) {
    run(One{});
  } else if (form.gamma == 1) {
    run(Linear{});
  } else if (form.gamma == 2) {
    run(Square{});
  } else {
    run(Power{form.gamma});
  }
}

}  // namespace

OSPREY_DISPATCH(sigmoid_focal_rows, any_form,
                (const float* logits, const float* targets, const float* weights, bool weight_per_class, int64_t rows,
                 int64_t depth, const FocalForm& form, float* sums, float* slopes),
                logits, targets, weights, weight_per_class, rows, depth, form, sums, slopes)

}  // namespace osprey::kernels::cpu
