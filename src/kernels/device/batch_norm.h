#pragma once
#include "kernels/arithmetic/curve.h"
#include "kernels/arithmetic/moments.h"
#include "kernels/device/column_sums.h"

/// Batch norm with an activation, and with a map that is added in between, over maps of channels_last.
namespace osprey::kernels::device {

/// An activation that is known when the kernel runs. Kernels for one that is known before need fewer registers.
struct AnyCurve {
  Epilogue epilogue;
  OSPREY_INLINE float value(float v) const {
    float result;
    with_curve(epilogue, [&](auto curve) { result = curve.value(v); });
    return result;
  }
  OSPREY_INLINE float back(float v, float gradient) const {
    float result;
    with_curve(epilogue, [&](auto curve) { result = curve.back(v, gradient); });
    return result;
  }
};

/// Calls run(curve) with the activation of kernels of that width: those that read channels one by one, which are few
/// and small maps, are not compiled for each.
template <int kWidth, class Run>
void with_curve_of_kernel(const Epilogue& epilogue, Run run) {
  if constexpr (kWidth == 1) {
    run(AnyCurve{epilogue});
  } else {
    with_curve(epilogue, run);
  }
}

/// Sum of x and of its square. What is summed are differences from the first row, which stay exact where the mean is
/// far from zero.
template <class T, int kWidthOf>
struct Moments {
  static constexpr int kWidth = kWidthOf, kAhead = 8;
  const T* x;

  struct Channels {
    const T* x;
    Vector<T, kWidth> center;
    OSPREY_INLINE Vector<T, kWidth> read(int64_t at) const { return device::read<kWidth>(x + at); }
    OSPREY_INLINE void add(int64_t, const Vector<T, kWidth>& row, float* a, float* b) const {
      OSPREY_UNROLL
      for (int k = 0; k < kWidth; ++k) {
        const float d = row[k] - center[k];
        a[k] += d;
        b[k] += d * d;
      }
    }
  };
  template <class Run>
  OSPREY_INLINE void with_channels(int64_t channel, Run run) const {
    run(Channels{x, device::read<kWidth>(x + channel)});
  }
  OSPREY_INLINE void finish(int64_t channel, int64_t rows, double& sum, double& square) const {
    moments_from(load(x + channel), rows, sum, square);
  }
};

/// A row of a map and of another one, its gradient or what is added to it.
template <class T, int kWidth>
struct RowPair {
  Vector<T, kWidth> other, x;
};

/// g, the gradient of a normalised map taken back through its activation, of `kWidth` channels.
template <class T, int kWidth, class Curve>
struct TakenBackChannels {
  OSPREY_INLINE TakenBackChannels(const T* gradient_map, const T* map, const ChannelAffine& affine, int64_t channel,
                                  Curve activation)
      : gradient(gradient_map),
        x(map),
        mean(affine.mean + channel),
        scale(affine.scale + channel),
        shift(affine.shift + channel),
        curve(activation) {}
  const T *gradient, *x;
  OfChannels<kWidth> mean, scale, shift;
  Curve curve;

  OSPREY_INLINE RowPair<T, kWidth> read(int64_t at) const {
    return {device::read<kWidth>(gradient + at), device::read<kWidth>(x + at)};
  }
  OSPREY_INLINE float of(const RowPair<T, kWidth>& row, int k, float& centered) const {
    centered = row.x[k] - mean[k];
    return curve.back(centered * scale[k] + shift[k], row.other[k]);
  }
  OSPREY_INLINE void add(int64_t, const RowPair<T, kWidth>& row, float* a, float* b) const {
    OSPREY_UNROLL
    for (int k = 0; k < kWidth; ++k) {
      float centered;
      const float g = of(row, k, centered);
      a[k] += g;
      b[k] += g * centered;
    }
  }
};

/// Sum of g and of g * (x - mean).
template <class T, int kWidthOf, class Curve>
struct GradientMoments {
  static constexpr int kWidth = kWidthOf, kAhead = 4;
  const T *gradient, *x;
  ChannelAffine affine;
  Curve curve;

  template <class Run>
  OSPREY_INLINE void with_channels(int64_t channel, Run run) const {
    run(TakenBackChannels<T, kWidth, Curve>(gradient, x, affine, channel, curve));
  }
  OSPREY_INLINE void finish(int64_t, int64_t, double&, double&) const {}
};

/// The same where a map was added before the activation, which is a clamp: g is the gradient of what came of it, y,
/// where that lies strictly inside, and is written down: it is the gradient of what was added, too. Where kTwice,
/// `again` is the rest of what flows to y.
template <class T, int kWidthOf, bool kTwice>
struct SumGradientMoments {
  static constexpr int kWidth = kWidthOf, kAhead = 2;
  const T *gradient, *again, *y, *x;
  ChannelAffine affine;
  T* of_addend;

  struct Row {
    Vector<T, kWidth> gradient, again, y, x;  // `again` only where kTwice
  };
  struct Channels {
    const SumGradientMoments& of;
    OfChannels<kWidth> mean;
    OSPREY_INLINE Row read(int64_t at) const {
      Row row{
          device::read<kWidth>(of.gradient + at), {}, device::read<kWidth>(of.y + at), device::read<kWidth>(of.x + at)};
      if constexpr (kTwice) row.again = device::read<kWidth>(of.again + at);
      return row;
    }
    OSPREY_INLINE void add(int64_t at, const Row& row, float* a, float* b) const {
      const Clamp clamp{of.affine.epilogue.low, of.affine.epilogue.high};
      float result[kWidth];
      OSPREY_UNROLL
      for (int k = 0; k < kWidth; ++k) {
        const float more = kTwice ? row.again[k] : 0.0f;
        const float g = clamp.back(row.y[k], row.gradient[k] + more);
        result[k] = g;
        a[k] += g;
        b[k] += g * (row.x[k] - mean[k]);
      }
      write(of.of_addend + at, result);
    }
  };
  template <class Run>
  OSPREY_INLINE void with_channels(int64_t channel, Run run) const {
    run(Channels{*this, OfChannels<kWidth>(affine.mean + channel)});
  }
  OSPREY_INLINE void finish(int64_t, int64_t, double&, double&) const {}
};

/// y = curve((x - mean) * scale + shift + addend)
template <class T, int kWidth, class Curve>
struct Normalize {
  static constexpr int kThreads = RowShares<kWidth>::kThreads, kAtOnce = 4, kAhead = 4;
  using Shared = Nothing;
  RowShares<kWidth> shares;
  const T *x, *addend;  ///< addend may be null
  ChannelAffine affine;
  Curve curve;
  T* y;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      if (share.channel < 0) return;
      const OfChannels<kWidth> mean(affine.mean + share.channel), scale(affine.scale + share.channel),
          shift(affine.shift + share.channel);
      const auto value = [&](const Vector<T, kWidth>& row, int k) { return (row[k] - mean[k]) * scale[k] + shift[k]; };
      if (addend == nullptr) {
        for_rows<kAhead>(
            share, 0, share.count, [&](int64_t at) { return read<kWidth>(x + at); },
            [&](int64_t at, const Vector<T, kWidth>& row) {
              float result[kWidth];
              OSPREY_UNROLL
              for (int k = 0; k < kWidth; ++k) result[k] = curve.value(value(row, k));
              write(y + at, result);
            });
        return;
      }
      for_rows<kAhead / 2>(
          share, 0, share.count,
          [&](int64_t at) {
            return RowPair<T, kWidth>{read<kWidth>(addend + at), read<kWidth>(x + at)};
          },
          [&](int64_t at, const RowPair<T, kWidth>& row) {
            float result[kWidth];
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k) result[k] = curve.value(value(row.x, k) + row.other[k]);
            write(y + at, result);
          });
    });
  }
};

/// result = scale * g + slope * (x - mean) + offset, with g as above.
template <class T, int kWidth, class Curve>
struct GradientOfInput {
  static constexpr int kThreads = RowShares<kWidth>::kThreads, kAtOnce = 2, kAhead = 4;
  using Shared = Nothing;
  RowShares<kWidth> shares;
  const T *gradient, *x;
  ChannelAffine affine;
  Curve curve;
  const float *slope, *offset;  ///< [depth]
  T* result;

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    block.run([&](int thread) {
      const auto share = shares.of(block.index, thread);
      if (share.channel < 0) return;
      const TakenBackChannels<T, kWidth, Curve> channels(gradient, x, affine, share.channel, curve);
      const OfChannels<kWidth> slopes(slope + share.channel), offsets(offset + share.channel);
      for_rows<kAhead>(
          share, 0, share.count, [&](int64_t at) { return channels.read(at); },
          [&](int64_t at, const RowPair<T, kWidth>& row) {
            float written[kWidth];
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k) {
              float centered;
              const float g = channels.of(row, k, centered);
              written[k] = channels.scale[k] * g + slopes[k] * centered + offsets[k];
            }
            write(result + at, written);
          });
    });
  }
};

}  // namespace osprey::kernels::device
