#pragma once
#include "kernels/arithmetic/elementary.h"
#include "osprey/kernels/epilogue.h"

/// Activations: `value` of a normalised number, and `back`, which takes a gradient through it.
namespace osprey::kernels {

struct Clamp {
  float low, high;
  OSPREY_INLINE float value(float v) const {
    v = v < low ? low : v;
    return v > high ? high : v;
  }
  OSPREY_INLINE float back(float v, float gradient) const { return (v > low) & (v < high) ? gradient : 0.0f; }
};
struct Swish {
  OSPREY_INLINE float value(float v) const { return quotient(v, 1.0f + exponential(-v)); }
  OSPREY_INLINE float back(float v, float gradient) const {
    const float gate = quotient(1.0f, 1.0f + exponential(-v));
    return gradient * gate * (1.0f + v * (1.0f - gate));
  }
};
struct HardSwish {
  OSPREY_INLINE float value(float v) const {
    float gate = v + 3.0f;
    gate = gate < 0.0f ? 0.0f : gate;
    gate = gate > 6.0f ? 6.0f : gate;
    return v * gate * (1.0f / 6.0f);
  }
  OSPREY_INLINE float back(float v, float gradient) const {
    const float slope = v >= 3.0f ? 1.0f : v * (1.0f / 3.0f) + 0.5f;
    return v > -3.0f ? gradient * slope : 0.0f;
  }
};

/// A batch norm with its activation; per channel, all [depth].
struct ChannelAffine {
  const float* mean;
  const float* scale;  ///< gamma * inverse deviation
  const float* shift;  ///< beta
  Epilogue epilogue;   ///< that (x - mean) * scale + shift is put through
};

/// Calls `run` with the curve of an epilogue.
template <class Run>
OSPREY_INLINE void with_curve(const Epilogue& epilogue, Run run) {
  if (epilogue.curve == Epilogue::Curve::kSwish) {
    run(Swish{});
  } else if (epilogue.curve == Epilogue::Curve::kHardSwish) {
    run(HardSwish{});
  } else {
    run(Clamp{epilogue.low, epilogue.high});
  }
}

}  // namespace osprey::kernels
