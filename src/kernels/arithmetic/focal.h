#pragma once
#include "kernels/arithmetic/elementary.h"

/// Sigmoid cross entropy with the factors of the focal loss, of one class of one anchor.
namespace osprey::kernels {

struct FocalForm {
  float gamma;               ///< power of 1 - p_t; 0: plain cross entropy
  float positive, negative;  ///< factor of a class whose target is 1, and of one whose target is 0
};

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
    slope = quotient(gamma * power, miss);
  }
};

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
  float inverse;  ///< 1 / ((1 + e) (2 + e)): one division for all
};

OSPREY_INLINE SigmoidParts sigmoid_parts(float x) {
  const float e = exponential(x < 0.0f ? x : -x);
  return {e, quotient(1.0f, (1.0f + e) * (2.0f + e))};
}

/// log(1 + exp(-|x|))
OSPREY_INLINE float entropy_of_sign(const SigmoidParts& parts) {
  return log_one_plus_from(parts.e * (1.0f + parts.e) * parts.inverse);
}

/// What focal_element gives where the target is 0, as nearly all are.
template <class Modulation>
OSPREY_INLINE void focal_element_of_absent(float x, const SigmoidParts& parts, const FocalForm& form,
                                           const Modulation& modulation, float& loss, float& slope) {
  const float large = (2.0f + parts.e) * parts.inverse, small = parts.e * large;
  const float p = x < 0.0f ? small : large, q = x < 0.0f ? large : small;
  const float above = x < 0.0f ? x * 0.0f : x;  // not a number for one that is infinite, as there
  const float entropy = form.negative * (above + entropy_of_sign(parts));
  float power, power_slope;
  modulation(p, power, power_slope);
  loss = entropy * power;
  slope = p * (form.negative * power + entropy * power_slope * q);
}

/// x  logit      t  target, 0..1      parts  sigmoid_parts(x)
template <class Modulation>
OSPREY_INLINE void focal_element(float x, float t, const SigmoidParts& parts, const FocalForm& form,
                                 const Modulation& modulation, float& loss, float& slope) {
  const float large = (2.0f + parts.e) * parts.inverse, small = parts.e * large;  // sigmoid of |x| and of -|x|
  const float p = x < 0.0f ? small : large, q = x < 0.0f ? large : small;
  const float entropy = (x < 0.0f ? 0.0f : x) - x * t + entropy_of_sign(parts);
  const float miss = t * q + (1.0f - t) * p;
  float power, power_slope;
  modulation(miss, power, power_slope);
  const float factor = form.negative + t * (form.positive - form.negative);
  loss = factor * entropy * power;
  slope = factor * ((p - t) * power + entropy * power_slope * (1.0f - 2.0f * t) * p * q);
}

}  // namespace osprey::kernels
