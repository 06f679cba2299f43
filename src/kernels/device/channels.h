#pragma once
#include <cmath>
#include <cstdint>

#include "kernels/arithmetic/inline.h"

/// What two sums over a map make of each channel's statistics, parameters and their gradients; little work, for
/// `AddParts` and `for_each`.
namespace osprey::kernels::device {

/// Mean and inverse deviation of a channel from its moments.
struct Statistics {
  double count, epsilon;
  float *mean, *inverse_deviation;  ///< [depth]

  OSPREY_INLINE void operator()(int64_t c, double sum, double square) const {
    const double average = sum / count, variance = square / count - average * average;
    mean[c] = static_cast<float>(average);
    inverse_deviation[c] = static_cast<float>(1 / std::sqrt((variance < 0 ? 0 : variance) + epsilon));
  }
};

/// What a channel's sums of g and g * (x - mean) over all images are for the gradient of x.
struct InputCoefficients {
  double count;  ///< values per channel
  const float *inverse_deviation, *scale;
  float *slope, *offset;

  OSPREY_INLINE void operator()(int64_t c, double sum, double product) const {
    const double inverse = inverse_deviation[c], factor = scale[c];
    slope[c] = static_cast<float>(-factor * inverse * inverse * product / count);
    offset[c] = static_cast<float>(-factor * sum / count);
  }
};

/// What they are, over the images of this replica, for its parameters.
struct ParameterGradients {
  const float* inverse_deviation;
  float *of_gamma, *of_beta;

  OSPREY_INLINE void operator()(int64_t c, double sum, double product) const {
    of_gamma[c] = static_cast<float>(product * inverse_deviation[c]);
    of_beta[c] = static_cast<float>(sum);
  }
};

/// Both of the same sums.
template <class First, class Second>
struct Both {
  First first;
  Second second;
  OSPREY_INLINE void operator()(int64_t c, double sum, double other) const {
    first(c, sum, other);
    second(c, sum, other);
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
  const float *scale, *gamma, *inverse_deviation;
  float *of_mean, *of_inverse_deviation, *of_gamma, *of_beta;
  OSPREY_INLINE void operator()(int64_t c, double moment, double moment_of_product) const {
    const auto sum = static_cast<float>(moment), product = static_cast<float>(moment_of_product);
    of_mean[c] = -scale[c] * sum;
    of_inverse_deviation[c] = gamma[c] * product;
    of_gamma[c] = inverse_deviation[c] * product;
    of_beta[c] = sum;
  }
};

}  // namespace osprey::kernels::device
