#pragma once
#include "kernels/device/batch_norm.h"

/// Squeeze and excitation over maps of channels_last, of which batch norm and activation may still be pending:
/// value = curve((x - mean) * scale + shift).
namespace osprey::kernels::device {

/// A block that works on one picture of several, by its number among those of the picture.
template <class Block>
struct BlockOfPicture {
  const Block& block;
  int64_t index;
  template <class Work>
  OSPREY_INLINE void run(Work work) const {
    block.run(work);
  }
};

/// `ColumnSums` of each picture by itself. `Element` has of_picture(number, elements of a picture, channels), too: what
/// it is for one picture.
template <class Element>
struct PictureSums {
  using Sums = ColumnSums<Element>;
  using Shared = typename Sums::Shared;
  static constexpr int kThreads = Sums::kThreads, kAtOnce = Sums::kAtOnce;

  Element element;
  RowShares<Element::kWidth> shares;  ///< of the rows of one picture
  double* parts;                      ///< [pictures, row blocks, 2, depth]
  Divisor blocks = shares.blocks();   ///< of one picture

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const Split of(block.index, blocks);
    const Sums sums{element.of_picture(of.quotient, shares.rows * shares.depth, shares.depth), shares,
                    parts + of.quotient * shares.row_blocks * 2 * shares.depth};
    sums(BlockOfPicture<Block>{block, of.rest}, shared);
  }
};

/// Sum of the values.
template <class T, int kWidthOf, class Curve>
struct ValueSums {
  static constexpr int kWidth = kWidthOf, kAhead = 8;
  const T* x;
  ChannelAffine affine;
  Curve curve;

  OSPREY_INLINE ValueSums of_picture(int64_t number, int64_t elements, int64_t) const {
    return {x + number * elements, affine, curve};
  }
  struct Channels {
    const T* x;
    OfChannels<kWidth> mean, scale, shift;
    Curve curve;
    OSPREY_INLINE Vector<T, kWidth> read(int64_t at) const { return device::read<kWidth>(x + at); }
    OSPREY_INLINE void add(int64_t, const Vector<T, kWidth>& row, float* a, float*) const {
      OSPREY_UNROLL
      for (int k = 0; k < kWidth; ++k) a[k] += curve.value((row[k] - mean[k]) * scale[k] + shift[k]);
    }
  };
  template <class Run>
  OSPREY_INLINE void with_channels(int64_t channel, Run run) const {
    run(Channels{x, OfChannels<kWidth>(affine.mean + channel), OfChannels<kWidth>(affine.scale + channel),
                 OfChannels<kWidth>(affine.shift + channel), curve});
  }
  OSPREY_INLINE void finish(int64_t, int64_t, double&, double&) const {}
};

/// A gradient of gated values, with the gate as the factor of a picture's channel, taken back to the values: sum of the
/// gradients times the values.
struct ThroughGate {
  template <class Curve>
  OSPREY_INLINE static float back(const Curve& curve, float centered, float scale, float shift, float gradient,
                                  float gate, float& sum, float&) {
    sum += gradient * curve.value(centered * scale + shift);
    return gradient * gate;
  }
};
/// A gradient of values, to which that of their mean is added, taken back to x: sum of g and of g * (x - mean).
struct ThroughMean {
  template <class Curve>
  OSPREY_INLINE static float back(const Curve& curve, float centered, float scale, float shift, float gradient,
                                  float of_mean, float& sum, float& product) {
    const float g = curve.back(centered * scale + shift, gradient + of_mean);
    sum += g;
    product += g * centered;
    return scale * g;
  }
};

/// Sums that one of them makes of a gradient and its map; what it returns is written down.
template <class T, int kWidthOf, class Curve, class Through>
struct PictureGradients {
  static constexpr int kWidth = kWidthOf, kAhead = 2;
  const T *gradient, *x;
  ChannelAffine affine;
  Curve curve;
  const float* of_pictures;  ///< [pictures, depth]: gates, or gradients of means
  T* result;

  OSPREY_INLINE PictureGradients of_picture(int64_t number, int64_t elements, int64_t depth) const {
    const int64_t first = number * elements;
    return {gradient + first, x + first, affine, curve, of_pictures + number * depth, result + first};
  }
  struct Channels {
    const PictureGradients& all;
    OfChannels<kWidth> mean, scale, shift, of_picture;
    OSPREY_INLINE RowPair<T, kWidth> read(int64_t at) const {
      return {device::read<kWidth>(all.gradient + at), device::read<kWidth>(all.x + at)};
    }
    OSPREY_INLINE void add(int64_t at, const RowPair<T, kWidth>& row, float* a, float* b) const {
      float written[kWidth];
      OSPREY_UNROLL
      for (int k = 0; k < kWidth; ++k)
        written[k] =
            Through::back(all.curve, row.x[k] - mean[k], scale[k], shift[k], row.other[k], of_picture[k], a[k], b[k]);
      write(all.result + at, written);
    }
  };
  template <class Run>
  OSPREY_INLINE void with_channels(int64_t channel, Run run) const {
    run(Channels{*this, OfChannels<kWidth>(affine.mean + channel), OfChannels<kWidth>(affine.scale + channel),
                 OfChannels<kWidth>(affine.shift + channel), OfChannels<kWidth>(of_pictures + channel)});
  }
  OSPREY_INLINE void finish(int64_t, int64_t, double&, double&) const {}
};

/// y = value * gate of the picture's channel
template <class T, int kWidth, class Curve>
struct Gate {
  static constexpr int kThreads = RowShares<kWidth>::kThreads, kAhead = 4;
  using Shared = Nothing;
  RowShares<kWidth> shares;  ///< of the rows of one picture
  const T* x;
  ChannelAffine affine;
  Curve curve;
  const float* gates;  ///< [pictures, depth]
  T* y;
  Divisor blocks = shares.blocks();  ///< of one picture

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const Split of(block.index, blocks);
    const int64_t first = of.quotient * shares.rows * shares.depth;
    block.run([&](int thread) {
      const auto share = shares.of(of.rest, thread);
      if (share.channel < 0) return;
      const OfChannels<kWidth> mean(affine.mean + share.channel), scale(affine.scale + share.channel),
          shift(affine.shift + share.channel), factors(gates + of.quotient * shares.depth + share.channel);
      for_rows<kAhead>(
          share, 0, share.count, [&](int64_t at) { return read<kWidth>(x + first + at); },
          [&](int64_t at, const Vector<T, kWidth>& row) {
            float result[kWidth];
            OSPREY_UNROLL
            for (int k = 0; k < kWidth; ++k)
              result[k] = curve.value((row[k] - mean[k]) * scale[k] + shift[k]) * factors[k];
            write(y + first + at, result);
          });
    });
  }
};

}  // namespace osprey::kernels::device
