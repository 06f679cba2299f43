#pragma once
#include "kernels/arithmetic/rounding.h"
#include "kernels/device/batch_norm.h"

/// Maps rounded to the numbers of 8 bits, and the range of their values.
namespace osprey::kernels::device {

/// Writes down what the kernels below round by.
struct MakeRounding {
  const float* range;  ///< [2]
  const bool* rounds;  ///< null: true
  int first;
  Rounding* rounding;
  OSPREY_INLINE void operator()(int64_t) const { *rounding = Rounding::of(range, rounds == nullptr || *rounds, first); }
};

/// A curve behind which values are rounded as memory of the device says.
struct CurveOfGrid {
  AnyCurve curve;
  const Rounding* rounding;
  OSPREY_INLINE float value(float v) const { return RoundedCurve<AnyCurve>{curve, *rounding}.value(v); }
  OSPREY_INLINE float back(float v, float gradient) const {
    return RoundedCurve<AnyCurve>{curve, *rounding}.back(v, gradient);
  }
};

/// The least and the largest of zero and of the values that are seen.
struct SeenRange {
  float least = 0, largest = 0;
  OSPREY_INLINE void see(float value) {
    least = value < least ? value : least;
    largest = value > largest ? value : largest;
  }
};

/// Those of the values of a map, of each block.
template <class T, int kWidth>
struct RangeOfMap {
  static constexpr int kThreads = RowShares<kWidth>::kThreads, kAtOnce = 4, kAhead = 4;
  static constexpr int64_t kMostBlocks = kAtOnce * 132;  ///< as many as an H100 has at once
  struct Shared {
    float least[kThreads], largest[kThreads];
  };
  RowShares<kWidth> shares;
  const T* x;
  ChannelAffine affine;
  AnyCurve curve;
  float* parts;  ///< [blocks, 2]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      SeenRange seen;
      const auto share = shares.of(block.index, thread);
      if (share.channel >= 0) {
        const OfChannels<kWidth> mean(affine.mean + share.channel), scale(affine.scale + share.channel),
            shift(affine.shift + share.channel);
        for_rows<kAhead>(
            share, 0, share.count, [&](int64_t at) { return read<kWidth>(x + at); },
            [&](int64_t, const Vector<T, kWidth>& row) {
              OSPREY_UNROLL
              for (int k = 0; k < kWidth; ++k) seen.see(curve.value((row[k] - mean[k]) * scale[k] + shift[k]));
            });
      }
      shared.least[thread] = seen.least;
      shared.largest[thread] = seen.largest;
    });
    finish(block, shared, parts + 2 * block.index);
  }

  template <class Block>
  static OSPREY_INLINE void finish(const Block& block, Shared& shared, float* range) {
    reduce<kThreads>(block, shared.least, [](float a, float b) { return b < a ? b : a; });
    reduce<kThreads>(block, shared.largest, [](float a, float b) { return b > a ? b : a; });
    block.run([&](int thread) {
      if (thread > 0) return;
      range[0] = shared.least[0];
      range[1] = shared.largest[0];
    });
  }
};

/// Of all of them, by one block.
struct RangeOfParts {
  using OfMap = RangeOfMap<float, 1>;
  static constexpr int kThreads = OfMap::kThreads;
  using Shared = OfMap::Shared;
  const float* parts;  ///< [count, 2]
  int64_t count;
  float* range;  ///< [2]

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    block.run([&](int thread) {
      SeenRange seen;
      for (int64_t part = thread; part < count; part += kThreads) {
        seen.see(parts[2 * part]);
        seen.see(parts[2 * part + 1]);
      }
      shared.least[thread] = seen.least;
      shared.largest[thread] = seen.largest;
    });
    OfMap::finish(block, shared, range);
  }
};

}  // namespace osprey::kernels::device
