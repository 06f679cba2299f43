#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "osprey/kernels/pending_map.h"
#include "osprey/kernels/sliding_window.h"

namespace osprey::kernels {

/// A map and the statistics of its channels over all places; as gradients, what flows to each of them.
struct MapWithStatistics {
  at::Tensor y;                        ///< [B, O, H', W'] of the type of x, channels_last
  at::Tensor mean, inverse_deviation;  ///< [O] float32; 1 / sqrt(biased variance + epsilon)
};

/// Gradients of all that goes into a convolution, each of the type of that.
struct NormalizedConvolutionGradients : PendingGradients {
  at::Tensor weights;
};

/// Whether `normalized_convolution` is the faster way: for maps in channels_last on a CPU and float32 weights of a
/// depthwise convolution of at most 7 x 7, of one of 1 x 1, of one whose window jumps, of at most 7 x 7 and with at
/// least 32 channels of the result, or of one whose window slides over maps and keeps their size: of bfloat16 maps by
/// AMX; or of 3 x 3 by Winograd's tiles, with channels in multiples of 16, of float32 maps, or of bfloat16 ones that
/// the machine has instructions for.
bool takes_normalized_convolution(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window);

/// A convolution that normalises and activates the map as it reads it, and gathers the statistics of its result as it
/// writes it. In a chain of them every map is written once and read once on the way forward (by windows as often as
/// they overlap), instead of twice and three times, and only what the convolutions make is kept for the gradients.
/// Maps may have half the bits of a float32; all arithmetic is in float32, but for what is multiplied by instructions
/// for bfloat16 numbers (docs/precision.md), and the statistics are those of y as it is after it has been rounded.
/// Errors of Winograd's tiles, and numbers that are none, are as in `sliding_convolution`.
///
/// input    B C H W: of at least one value
/// weights  [C, 1, kernel height, kernel width]: depthwise; [O, C, kernel height, kernel width]: of all channels;
///          float32, O > 0, kernels of at most 7 x 7
/// epsilon  of the statistics
/// throws   c10::Error where sizes or types are not as above
/// operator osprey::normalized_convolution
MapWithStatistics normalized_convolution(const PendingMap& input, const at::Tensor& weights,
                                         const SlidingWindow& window, double epsilon);

/// The same of several maps, in one go where windows slide over them.
/// inputs  at least one; all have the same parts and the same epilogue; only their pictures and sides may differ
std::vector<MapWithStatistics> normalized_convolution(const std::vector<PendingMap>& inputs, const at::Tensor& weights,
                                                      const SlidingWindow& window, double epsilon);

struct ConvolutionGradientOptions {
  bool of_x = true;  ///< false: where nothing is pending, no gradient of the input is made
  at::Tensor scale;  ///< [O] float32 that the gradient of y, of one map, has still to be multiplied with; undefined: 1
};

/// Its gradients.
/// gradient  of the result, each part may be undefined: 0
/// result    as `normalized_convolution` gave it
/// operator  osprey::normalized_convolution_backward
NormalizedConvolutionGradients normalized_convolution_backward(const MapWithStatistics& gradient,
                                                               const MapWithStatistics& result, const PendingMap& input,
                                                               const at::Tensor& weights, const SlidingWindow& window,
                                                               const ConvolutionGradientOptions& options = {});

/// The same of several maps.
struct SharedConvolutionGradients {
  std::vector<PendingGradients> inputs;
  at::Tensor weights;
};
SharedConvolutionGradients normalized_convolution_backward(const std::vector<MapWithStatistics>& gradients,
                                                           const std::vector<MapWithStatistics>& results,
                                                           const std::vector<PendingMap>& inputs,
                                                           const at::Tensor& weights, const SlidingWindow& window,
                                                           const ConvolutionGradientOptions& options = {});

}  // namespace osprey::kernels
