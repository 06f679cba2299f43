#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/normalized_convolution.h"
#include "kernels/cpu/sides.h"
#include "kernels/cpu/sliding_convolution.h"
#include "osprey/kernels/normalized_convolution.h"

/// What `osprey::normalized_convolution` is made of, by the loops that take it, or composed of other operators where
/// none do. Maps are channels_last, of float32 or half the bits.
namespace osprey::kernels {

/// Which convolution it is and how its window moves over the map.
struct ConvolutionPlan {
  /// Throws c10::Error for maps and weights that have no such convolution.
  ConvolutionPlan(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window);

  SlidingWindow window;
  cpu::Sides sides;
  bool depthwise;              ///< of each channel by itself, not of all of them
  bool slides;                 ///< the window moves over the map, instead of what it sees being brought together
  std::vector<int64_t> sizes;  ///< of the result

  bool takes_loops(const at::Tensor& x) const;
};

/// Whether the convolution is one of each channel by itself.
bool is_depthwise(const at::Tensor& x, const at::Tensor& weights);

/// Whether products of what windows see are the faster way. Where windows move by one, that takes tiles of bfloat16
/// numbers, or Winograd's; where they jump, and with few channels of the result, bringing rows together takes longer
/// than multiplying.
bool takes_windows(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window);

/// A gradient of weights as a parameter of the trainer lies in memory: channels_last, with the strides of its sizes
/// even where these are one.
at::Tensor as_parameter(const at::Tensor& weights);

/// One result for each map; `affines` are of what is pending of each, and `plans` those of each.
std::vector<cpu::Convolved> convolve(at::TensorList maps, const std::vector<std::optional<Affine>>& affines,
                                     const at::Tensor& weights, const std::vector<ConvolutionPlan>& plans);

/// What a convolution has made, with the statistics of that.
MapWithStatistics with_statistics(const cpu::Convolved& convolved, double epsilon);

/// What flows to a result by itself and through its statistics.
/// gradient  of each part of it; undefined: 0
/// scale     [O] float32 that the gradient of y has still to be multiplied with; undefined: 1
cpu::ThroughStatistics through_statistics(const MapWithStatistics& gradient, const MapWithStatistics& result,
                                          const at::Tensor& scale = {});

/// Gradients of each map and of the weights that they share; see cpu/normalized_convolution.h.
cpu::SharedGradients convolve_backward(const std::vector<cpu::ThroughStatistics>& gradients, at::TensorList maps,
                                       const std::vector<std::optional<Affine>>& affines, const at::Tensor& weights,
                                       const std::vector<ConvolutionPlan>& plans, bool of_x);

}  // namespace osprey::kernels
