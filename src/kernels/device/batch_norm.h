#pragma once
#include <cmath>

#include "kernels/arithmetic/curve.h"
#include "kernels/arithmetic/number.h"
#include "kernels/device/kernel.h"

/// Batch norm over rows of channels, the form that a channels_last map has in memory.
namespace osprey::kernels::device {

/// Two sums per channel, in fixed blocks of rows. `Element` says what is summed:
///     start(c) -> what a thread needs to know of channel c
///     add(known, row, c, a, b)          adds to the two sums
///     finish(known, rows, sum, other)   makes of the sums of so many rows what is wanted
template <class Element>
struct ColumnSums {
  static constexpr int kColumns = 32, kLanes = 8, kThreads = kColumns * kLanes;
  static constexpr int kFloats = 32;  ///< rows that a thread sums as floats before they join the doubles
  struct Shared {
    double sums[kThreads], others[kThreads];
  };

  Element element;
  int64_t rows, depth, row_blocks;
  double* parts;  ///< [row_blocks, 2, depth]

  /// So many that a large GPU is busy, and each still has rows enough.
  static int64_t row_blocks_for(int64_t rows, int64_t depth) {
    const int64_t wanted = blocks_for(1024, blocks_for(depth, kColumns)), most = blocks_for(rows, 64);
    return wanted < most ? wanted : most;
  }
  int64_t blocks() const { return row_blocks * blocks_for(depth, kColumns); }

  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared& shared) const {
    const int64_t row_block = block.index % row_blocks, first_column = block.index / row_blocks * kColumns;
    const int64_t size = blocks_for(rows, row_blocks), first = row_block * size,
                  last = first + size < rows ? first + size : rows;
    block.run([&](int thread) {
      shared.sums[thread] = shared.others[thread] = 0;
      const int64_t c = first_column + thread % kColumns;
      if (c >= depth) return;
      const auto known = element.start(c);
      for (int64_t from = first + thread / kColumns; from < last; from += kFloats * kLanes) {
        float a = 0, b = 0;
        for (int64_t i = 0; i < kFloats; ++i)
          if (const int64_t row = from + i * kLanes; row < last) element.add(known, row, c, a, b);
        shared.sums[thread] += a;
        shared.others[thread] += b;
      }
    });
    block.run([&](int thread) {
      const int64_t c = first_column + thread;
      if (thread >= kColumns || c >= depth) return;
      double sum = 0, other = 0;
      for (int lane = 0; lane < kLanes; ++lane) {
        sum += shared.sums[thread + lane * kColumns];
        other += shared.others[thread + lane * kColumns];
      }
      element.finish(element.start(c), first < last ? last - first : 0, sum, other);
      parts[row_block * 2 * depth + c] = sum;
      parts[(row_block * 2 + 1) * depth + c] = other;
    });
  }
};

/// Sum of x and of its square. What is summed are differences from the first row, which stay exact where the mean is
/// far from zero.
template <class T>
struct Moments {
  const T* x;
  int64_t depth;
  OSPREY_INLINE float start(int64_t c) const { return load(x + c); }
  OSPREY_INLINE void add(float center, int64_t row, int64_t c, float& a, float& b) const {
    const float d = load(x + row * depth + c) - center;
    a += d;
    b += d * d;
  }
  OSPREY_INLINE void finish(float center, int64_t rows, double& sum, double& square) const {
    const double from = center, count = static_cast<double>(rows);
    square += 2 * from * sum + count * from * from;
    sum += count * from;
  }
};

/// A normalised value's place in the graph: what a gradient of y makes of x.
template <class T>
struct GradientOfNormalized {
  const T *gradient, *x;
  int64_t depth;
  ChannelAffine affine;
  /// The gradient taken through the curve, and x - mean.
  OSPREY_INLINE float at(int64_t index, int64_t c, float& centered) const {
    centered = load(x + index) - affine.mean[c];
    float result = 0;
    with_curve(affine.epilogue, [&](auto curve) {
      result = curve.back(centered * affine.scale[c] + affine.shift[c], load(gradient + index));
    });
    return result;
  }
};

/// Sum of g, the gradient taken through the curve, and of g * (x - mean).
template <class T>
struct GradientMoments {
  GradientOfNormalized<T> of;
  OSPREY_INLINE Nothing start(int64_t) const { return {}; }
  OSPREY_INLINE void add(Nothing, int64_t row, int64_t c, float& a, float& b) const {
    float centered;
    const float g = of.at(row * of.depth + c, c, centered);
    a += g;
    b += g * centered;
  }
  OSPREY_INLINE void finish(Nothing, int64_t, double&, double&) const {}
};

/// Adds up what the blocks of `ColumnSums` have found, always in the same order: sum i.
struct AddParts {
  const double* parts;  ///< [row_blocks, count]
  int64_t row_blocks, count;
  double* sums;  ///< [count]
  OSPREY_INLINE void operator()(int64_t i) const {
    double sum = 0;
    for (int64_t part = 0; part < row_blocks; ++part) sum += parts[part * count + i];
    sums[i] = sum;
  }
};

/// The channel of element `at + ahead`, where `at` is the same for a whole block: the slow division is made once.
struct ChannelFrom {
  uint32_t first, depth;
  OSPREY_INLINE ChannelFrom(int64_t at, int64_t channels)
      : first(static_cast<uint32_t>(at % channels)), depth(static_cast<uint32_t>(channels)) {}
  OSPREY_INLINE int64_t operator()(int ahead) const { return (first + static_cast<uint32_t>(ahead)) % depth; }
};

/// y = curve((x - mean) * scale + shift). So many neighbours per thread.
template <class T>
struct Normalize {
  static constexpr int kThreads = 256, kPerThread = 4;
  using Shared = Nothing;
  const T* x;
  int64_t count, depth;
  ChannelAffine affine;
  T* y;

  int64_t blocks() const { return blocks_for(count, kThreads * kPerThread); }
  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const int64_t first = block.index * kPerThread * kThreads;
    const ChannelFrom channel(first, depth);
    with_curve(affine.epilogue, [&](auto curve) {
      block.run([&](int thread) {
        for (int ahead = thread; ahead < kPerThread * kThreads; ahead += kThreads) {
          const int64_t at = first + ahead, c = channel(ahead);
          if (at >= count) return;
          store(y + at, curve.value((load(x + at) - affine.mean[c]) * affine.scale[c] + affine.shift[c]));
        }
      });
    });
  }
};

/// result = scale * g + slope * (x - mean) + offset, with g as above.
template <class T>
struct GradientOfInput {
  static constexpr int kThreads = 256, kPerThread = 4;
  using Shared = Nothing;
  GradientOfNormalized<T> of;
  const float *slope, *offset;  ///< [depth]
  int64_t count;
  T* result;

  int64_t blocks() const { return blocks_for(count, kThreads * kPerThread); }
  template <class Block>
  OSPREY_INLINE void operator()(const Block& block, Shared&) const {
    const int64_t first = block.index * kPerThread * kThreads;
    const ChannelFrom channel(first, of.depth);
    block.run([&](int thread) {
      for (int ahead = thread; ahead < kPerThread * kThreads; ahead += kThreads) {
        const int64_t at = first + ahead, c = channel(ahead);
        if (at >= count) return;
        float centered;
        const float g = of.at(at, c, centered);
        store(result + at, of.affine.scale[c] * g + slope[c] * centered + offset[c]);
      }
    });
  }
};

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

/// What `GradientOfInput` needs of a channel's sums of g and g * (x - mean) over all images.
struct GradientCoefficients {
  const double* moments;  ///< [2, depth]
  int64_t depth;
  double count;
  const float *inverse_deviation, *scale;
  float *slope, *offset;

  OSPREY_INLINE void operator()(int64_t c) const {
    const double inverse = inverse_deviation[c], factor = scale[c];
    slope[c] = static_cast<float>(-factor * inverse * inverse * moments[depth + c] / count);
    offset[c] = static_cast<float>(-factor * moments[c] / count);
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
