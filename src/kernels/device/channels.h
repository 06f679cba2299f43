#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/arithmetic/inline.h"

/// What sums over a map make of each channel's statistics, parameters and their gradients; little work, for `for_each`.
namespace osprey::kernels::device {

/// Mean and inverse deviation of a channel from its moments.
struct Statistics {
  const double* moments;  ///< [2, depth]
  int64_t depth;
  double count, epsilon;
  float *mean, *inverse_deviation;  ///< [depth]

  OSPREY_INLINE void operator()(int64_t c) const {
    const double average = moments[c] / count, variance = moments[depth + c] / count - average * average;
    mean[c] = static_cast<float>(average);
    inverse_deviation[c] = static_cast<float>(1 / std::sqrt((variance < 0 ? 0 : variance) + epsilon));
  }
};

/// What a channel's sums of g and g * (x - mean) are for its parameters, and what `GradientOfInput` needs of those over
/// all images.
struct GradientCoefficients {
  const double *own, *of_all;  ///< [2, depth]: over the images of this replica, and over all
  int64_t depth;
  double count;  ///< values per channel of all
  const float *inverse_deviation, *scale;
  float *slope, *offset, *of_gamma, *of_beta;

  OSPREY_INLINE void operator()(int64_t c) const {
    const double inverse = inverse_deviation[c], factor = scale[c];
    slope[c] = static_cast<float>(-factor * inverse * inverse * of_all[depth + c] / count);
    offset[c] = static_cast<float>(-factor * of_all[c] / count);
    of_gamma[c] = static_cast<float>(own[depth + c] * inverse);
    of_beta[c] = static_cast<float>(own[c]);
  }
};

/// What the gradients of a map's statistics add to that of the map, slope * (x - mean) + offset. Of each channel.
struct ThroughStatisticsOf {
  const float *of_mean, *of_inverse_deviation;  ///< null: 0
  const float* inverse_deviation;               ///< (variance + epsilon)^(-1/2)
  float count;                                  ///< values per channel
  float *slope, *offset;
  OSPREY_INLINE void operator()(int64_t c) const {
    const float d = inverse_deviation[c];
    slope[c] = of_inverse_deviation == nullptr ? 0.0f : -of_inverse_deviation[c] / count * d * d * d;
    offset[c] = of_mean == nullptr ? 0.0f : of_mean[c] / count;
  }
};

/// What `GradientMoments` of a normalised map are for its statistics and parameters. Of each channel.
struct GradientsOfChannel {
  const double* moments;  ///< [2, depth]
  int64_t depth;
  const float *scale, *gamma, *inverse_deviation;
  float *of_mean, *of_inverse_deviation, *of_gamma, *of_beta;
  OSPREY_INLINE void operator()(int64_t c) const {
    const auto sum = static_cast<float>(moments[c]), product = static_cast<float>(moments[depth + c]);
    of_mean[c] = -scale[c] * sum;
    of_inverse_deviation[c] = gamma[c] * product;
    of_gamma[c] = inverse_deviation[c] * product;
    of_beta[c] = sum;
  }
};

}  // namespace osprey::kernels::device
