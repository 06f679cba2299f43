#pragma once
#include "kernels/arithmetic/inline.h"

/// Values rounded to the numbers of 8 bits.
namespace osprey::kernels {

/// The numbers lie `scale` apart, from least * scale to largest * scale, and zero is one of them.
struct Rounding {
  float scale, inverse, least, largest;
  float rounds;  ///< 0: values stay as they are

  /// range  [2]: from where to where values lie, zero among them
  /// first  of the numbers, of which the last one is 255
  static OSPREY_INLINE Rounding of(const float* range, bool rounds, int first) {
    constexpr float kLeastScale = 1e-30f;  // where all values are zero
    const auto low = static_cast<float>(first), high = 255.0f;
    float scale = (range[1] - range[0]) / (high - low);
    scale = scale < kLeastScale ? kLeastScale : scale;
    float zero = whole(-range[0] / scale) + low;  // the number that zero is
    zero = zero < low ? low : zero;
    zero = zero > high ? high : zero;
    return {scale, 1.0f / scale, low - zero, high - zero, rounds ? 1.0f : 0.0f};
  }

  OSPREY_INLINE float value(float v) const {
    float number = v * inverse;
    number = number < least ? least : number;
    number = number > largest ? largest : number;
    number = (number + kOnlyWhole) - kOnlyWhole;
    return rounds == 0.0f ? v : number * scale;
  }
  /// Gradients flow from what lies between the first and the last number.
  OSPREY_INLINE float back(float v, float gradient) const {
    return (rounds == 0.0f) | ((v >= least * scale) & (v <= largest * scale)) ? gradient : 0.0f;
  }

 private:
  /// Floats of this size have no digits behind the point: a sum with it is rounded to nearest, ties to even.
  static constexpr float kOnlyWhole = 12582912.0f;  // 1.5 * 2^23
  /// The whole number from 0 to 255 that is nearest, ties upwards; 0 for what is no number.
  static OSPREY_INLINE float whole(float number) {
    number = number > 0.0f ? number : 0.0f;
    number = number < 255.0f ? number : 255.0f;
    return static_cast<float>(static_cast<int>(number + 0.5f));
  }
};

/// A curve (arithmetic/curve.h) behind which values are rounded.
template <class Curve>
struct RoundedCurve {
  Curve curve;
  Rounding rounding;
  OSPREY_INLINE float value(float v) const { return rounding.value(curve.value(v)); }
  OSPREY_INLINE float back(float v, float gradient) const {
    return rounding.back(curve.value(v), curve.back(v, gradient));
  }
};

}  // namespace osprey::kernels
