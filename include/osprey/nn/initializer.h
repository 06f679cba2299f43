#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace osprey::nn {

/// How many inputs and outputs one weight of a layer is connected to, as the original counts them: for a convolution
/// kernel area times input depth and kernel area times output depth.
struct Fans {
  double in = 1, out = 1;
};

/// The distribution that the first value of a variable is drawn from.
struct Initializer {
  enum class Kind { kConstant, kNormal, kTruncatedNormal, kUniform, kVarianceScaling };
  enum class Mode { kFanIn, kFanOut, kFanAverage };

  Kind kind = Kind::kConstant;
  double mean = 0;           ///< the value of kConstant; the middle of the others
  double spread = 1;         ///< standard deviation; half the width of kUniform; the factor of kVarianceScaling
  Mode mode = Mode::kFanIn;  ///< kVarianceScaling only
  bool uniform = false;      ///< kVarianceScaling only: uniform instead of truncated normal

  static Initializer constant(double value) { return {Kind::kConstant, value, 0}; }
  /// Values beyond two standard deviations are drawn again, as TensorFlow does.
  static Initializer truncated_normal(double mean, double stddev) { return {Kind::kTruncatedNormal, mean, stddev}; }
  static Initializer normal(double mean, double stddev) { return {Kind::kNormal, mean, stddev}; }
  /// With n the fan of the mode: uniform within sqrt(3 factor / n), or truncated normal of deviation
  /// sqrt(1.3 factor / n).
  static Initializer variance_scaling(double factor, Mode mode, bool uniform) {
    return {Kind::kVarianceScaling, 0, factor, mode, uniform};
  }
};

/// Fills a float tensor on the CPU. The values depend on the seed, the name and the shape only, never on the order in
/// which variables are made or on the number of threads.
///
/// name  full name of the variable, e.g. "FeatureExtractor.MobilenetV1.Conv2d_0.weights"
void initialize(const at::Tensor& tensor, const Initializer& initializer, const Fans& fans, const std::string& name,
                uint64_t seed);

}  // namespace osprey::nn
