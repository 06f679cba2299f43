#pragma once
#include <cmath>
#include <type_traits>

#include "kernels/arithmetic/elementary.h"

/// Sigmoid cross entropy with the factors of the focal loss, of one class of one anchor.
namespace osprey::kernels {

struct FocalForm {
  float gamma;               ///< power of 1 - p_t; 0: plain cross entropy
  float positive, negative;  ///< factor of a class whose target is 1, and of one whose target is 0

  OSPREY_INLINE FocalForm times(float weight) const { return {gamma, positive * weight, negative * weight}; }
};

/// Powers of what the sigmoid misses the target by, which has the sign of the logit here: miss^(gamma - 1) with that
/// sign. Times miss it is the power of the focal loss, times gamma that one's derivative.
struct Linear {
  static constexpr float gamma = 1;
  OSPREY_INLINE float operator()(float miss) const { return copysignf(1.0f, miss); }
};
struct Square {
  static constexpr float gamma = 2;
  OSPREY_INLINE float operator()(float miss) const { return miss; }
};
struct Power {
  float gamma;
  OSPREY_INLINE float operator()(float miss) const {
    const float size = fabsf(miss) < 1.17549435e-38f ? 1.17549435e-38f : fabsf(miss);
    return copysignf(exponential((gamma - 1.0f) * logarithm(size)), miss);
  }
};
/// Plain cross entropy: no power at all.
struct One {};

/// Calls `run` with the power that `form` asks for.
template <class Run>
OSPREY_INLINE void with_modulation(const FocalForm& form, Run run) {
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

/// What has to be known of a logit before its target counts.
struct SigmoidParts {
  float e;        ///< exp(-|x|)
  float inverse;  ///< 1 / (1 + e), the sigmoid of |x|
  float sign;     ///< a number with the sign of x; that of -0 is that of 0
};

OSPREY_INLINE SigmoidParts sigmoid_parts(float x) {
#ifdef __CUDA_ARCH__
  const float sign = fmaf(x, 1.44269504f, 0.0f), e = power_of_two(-fabsf(sign));
#else
  const float sign = x + 0.0f, e = exponential(-fabsf(x));
#endif
  return {e, quotient(1.0f, 1.0f + e), sign};
}

/// Computed from differences none of which cancels where the target is 0 or 1.
/// x      logit; where it is not finite, neither are loss and slope
/// t      target, 0..1
/// parts  sigmoid_parts(x)
template <class Modulation>
OSPREY_INLINE void focal_element(float x, float t, const SigmoidParts& parts, const FocalForm& form,
                                 const Modulation& modulation, float& loss, float& slope) {
  const float beside = t - (parts.sign >= 0.0f ? 1.0f : 0.0f);  // the target less the class that the logit stands for
  const float small = parts.e * parts.inverse, signed_small = copysignf(small, parts.sign);
  const float too_much = -(beside + signed_small);  // sigmoid(x) - t
  const float entropy = parts.e * log_one_plus_over(parts.e, parts.inverse) - x * beside;
  const float factor = form.negative + t * (form.positive - form.negative);
  if constexpr (std::is_same_v<Modulation, One>) {
    loss = factor * entropy;
    slope = factor * (x * 0.0f + too_much);
  } else {
    const float miss = signed_small - beside * (parts.inverse - small);
    // A power below 1 of nearly nothing is so large that it has to meet what is small before any factor.
    const float power = modulation(miss), curve = signed_small * parts.inverse;
    loss = factor * (power * (entropy * miss));
    slope = factor * (power * (too_much * miss + entropy * ((modulation.gamma - 2.0f * modulation.gamma * t) * curve)));
  }
}

}  // namespace osprey::kernels
