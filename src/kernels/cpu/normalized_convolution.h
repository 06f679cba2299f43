#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/sides.h"

/// Convolutions that normalise what they read, piece by piece of the map: loops for CPUs.
namespace osprey::kernels::cpu {

/// What is added to the gradient of a map because its statistics have one, too:
/// total = scale * gradient + slope * (y - mean) + offset.
struct ThroughStatistics {
  at::Tensor gradient, y;                 ///< [B, O, H', W'] of the type of x, channels_last
  at::Tensor mean, scale, slope, offset;  ///< [O]; the mean is that of y
};

struct Convolved {
  at::Tensor y;        ///< [B, O, H', W'] of the type of x, channels_last
  at::Tensor moments;  ///< [2, O] float64, as `moments` gives them
};

struct MapGradient {
  at::Tensor x;        ///< of the map as it was before it was normalised, its statistics held fast
  at::Tensor moments;  ///< [2, C] float64, as `gradient_moments` gives them; undefined where nothing is normalised
};

struct ConvolvedGradients : MapGradient {
  at::Tensor weights;  ///< float32
};

/// Of several maps by the same weights.
struct SharedGradients {
  std::vector<MapGradient> maps;
  at::Tensor weights;  ///< float32
};

/// x        [B, C, H, W] float32 or half the bits, channels_last; normalised by `affine` where there is one; all
///          arithmetic is in float32
/// weights  [O, C, kernel height, kernel width] float32; places of the result: at least kLeastPlaces
Convolved normalized_dense(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                           const Sides& sides);
/// The gradient of the weights has their sizes. What windows see and its gradients are brought together for some
/// pictures at a time, up to 64 MiB of each.
///
/// of_x  true where there is an affine
ConvolvedGradients normalized_dense_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                             const std::optional<Affine>& affine, const at::Tensor& weights,
                                             const Sides& sides, bool of_x);

/// What a convolution reads instead of x where another map is added to it: the sum, clamped as the affine says; and
/// what flows to that from elsewhere.
struct ReadSum {
  at::Tensor sum, again;  ///< like x; nothing flows from elsewhere where `again` is undefined
};

/// A convolution of 1 x 1 of the sum of x, normalised, and of `addend`, clamped.
/// sides  those of 1 x 1
/// sum    like x: is written
Convolved summed_dense(const at::Tensor& x, const Affine& affine, const at::Tensor& addend, const at::Tensor& weights,
                       const Sides& sides, const at::Tensor& sum);
/// The gradient that it has of x is that of `addend`.
ConvolvedGradients summed_dense_backward(const ThroughStatistics& gradient, const ReadSum& sum, const at::Tensor& x,
                                         const Affine& affine, const at::Tensor& weights, const Sides& sides);

/// weights  [C, 1, kernel height, kernel width]
Convolved normalized_depthwise(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                               const Sides& sides);
/// of_x  true where there is an affine
ConvolvedGradients normalized_depthwise_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                                 const std::optional<Affine>& affine, const at::Tensor& weights,
                                                 const Sides& sides, bool of_x);

/// The convolution alone; its gradients have no moments.
at::Tensor depthwise(const at::Tensor& x, const at::Tensor& weights, const Sides& sides);
/// gradient  of the type of x, channels_last
ConvolvedGradients depthwise_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weights,
                                      const Sides& sides, bool of_x);

}  // namespace osprey::kernels::cpu
