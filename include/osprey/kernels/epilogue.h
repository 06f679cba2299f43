#pragma once
#include <limits>

namespace osprey::kernels {

/// What is done to a normalised value.
struct Epilogue {
  enum class Curve {
    kClamp,      ///< it is moved into [low, high]; the gradient is that of the values strictly inside
    kSwish,      ///< v * sigmoid(v), to a few units in the last place
    kHardSwish,  ///< v * min(max(v + 3, 0), 6) / 6
  };
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  Curve curve = Curve::kClamp;

  bool operator==(const Epilogue&) const = default;
};

}  // namespace osprey::kernels
