#pragma once
#include <cmath>

#include "kernels/arithmetic/inline.h"

/// Rules by which training moves a number: `value`, by what its `gradient` says and what is kept of it in two slots.
/// Their members are made from numbers that lie in memory, in this order.
namespace osprey::kernels {

struct MomentumRule {
  static constexpr int kSlots = 1, kNumbers = 3;
  float momentum, gradient_factor, value_factor;
  OSPREY_INLINE explicit MomentumRule(const float* n) : momentum(n[0]), gradient_factor(n[1]), value_factor(n[2]) {}
  OSPREY_INLINE void operator()(float& value, float gradient, float& accumulator, float&) const {
    accumulator = momentum * accumulator + gradient_factor * gradient;
    value += value_factor * accumulator;
  }
};

template <bool kEpsilonOutside>
struct RmsPropRule {
  static constexpr int kSlots = 2, kNumbers = 4;
  float rho, momentum, rate, epsilon;
  OSPREY_INLINE explicit RmsPropRule(const float* n) : rho(n[0]), momentum(n[1]), rate(n[2]), epsilon(n[3]) {}
  OSPREY_INLINE void operator()(float& value, float gradient, float& square, float& accumulator) const {
    square = rho * square + (1.0f - rho) * gradient * gradient;
    const float root = kEpsilonOutside ? std::sqrt(square) + epsilon : std::sqrt(square + epsilon);
    accumulator = momentum * accumulator + rate * gradient / root;
    value -= accumulator;
  }
};

struct AdamRule {
  static constexpr int kSlots = 2, kNumbers = 4;
  float beta1, beta2, rate, epsilon;
  OSPREY_INLINE explicit AdamRule(const float* n) : beta1(n[0]), beta2(n[1]), rate(n[2]), epsilon(n[3]) {}
  OSPREY_INLINE void operator()(float& value, float gradient, float& mean, float& variance) const {
    mean = beta1 * mean + (1.0f - beta1) * gradient;
    variance = beta2 * variance + (1.0f - beta2) * gradient * gradient;
    value -= rate * mean / (std::sqrt(variance) + epsilon);
  }
};

/// A moving average, which takes the place of the value; the parameter takes that of the gradient.
struct AverageRule {
  static constexpr int kSlots = 0, kNumbers = 1;
  float rate;
  OSPREY_INLINE explicit AverageRule(const float* n) : rate(n[0]) {}
  OSPREY_INLINE void operator()(float& average, float parameter, float&, float&) const {
    average = rate < 0.5f ? average + rate * (parameter - average) : parameter - (1.0f - rate) * (parameter - average);
  }
};

/// What a gradient of a sum becomes: divided by a number, with that of the penalties on its parameter.
struct GradientRule {
  float divisor, l1, l2;
  OSPREY_INLINE bool penalises() const { return l1 != 0.0f || l2 != 0.0f; }
  OSPREY_INLINE float operator()(float gradient) const { return gradient / divisor; }
  OSPREY_INLINE float operator()(float gradient, float value) const {
    const float sign = value > 0.0f ? 1.0f : value < 0.0f ? -1.0f : 0.0f;
    return gradient / divisor + (l1 * sign + l2 * value);
  }
  /// What the parameter adds to the loss.
  OSPREY_INLINE double penalty(float value) const {
    const double number = value, slope = l1, curve = 0.5 * l2;
    return slope * std::fabs(number) + curve * number * number;
  }
};

}  // namespace osprey::kernels
