#include "nn/folded_convolution.h"

#include <ATen/ATen.h>

#include "nn/convolution_operation.h"
#include "osprey/kernels/fold_pixels.h"

namespace osprey::nn {
namespace {

constexpr int64_t kChannels = kernels::kMostFoldedChannels;

/// How a side of the map is folded, so that every window begins with a folded pixel.
struct FoldedSide {
  /// padding  zeros before and after the side      kernel  taps
  FoldedSide(int64_t side, int64_t kernel, int64_t padding_before, int64_t padding_after)
      : taps_before(padding_before % 2),
        taps((taps_before + kernel + 1) / 2),
        taps_after(2 * taps - taps_before - kernel),
        before(padding_before + taps_before),
        size((side + padding_before + padding_after - kernel) / 2 + taps) {}
  int64_t taps_before;  ///< zeros before the taps
  int64_t taps;         ///< folded ones
  int64_t taps_after;   ///< zeros behind the taps
  int64_t before;       ///< zeros before the side
  int64_t size;         ///< folded pixels
};

/// [O, C, kernel height, kernel width] -> [O, 16, folded taps, folded taps], channels_last
at::Tensor folded_weights(const at::Tensor& weights, const FoldedSide& rows, const FoldedSide& columns) {
  const at::Tensor padded = at::constant_pad_nd(weights, {columns.taps_before, columns.taps_after, rows.taps_before,
                                                          rows.taps_after, 0, kChannels - weights.size(1)});
  return padded.view({weights.size(0), kChannels, rows.taps, 2, columns.taps, 2})
      .permute({0, 2, 4, 3, 5, 1})
      .reshape({weights.size(0), rows.taps, columns.taps, 4 * kChannels})
      .permute({0, 3, 1, 2});
}

}  // namespace

at::Tensor folded_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                              const kernels::SlidingWindow& window) {
  const auto& [above, below, left, right] = window.padding;
  const FoldedSide rows(x.size(2), weights.size(2), above, below), columns(x.size(3), weights.size(3), left, right);
  const at::Tensor pictures =
      kernels::fold_pixels(as_autocast(x), {rows.before, columns.before}, {rows.size, columns.size});
  return at::conv2d(pictures, folded_weights(weights, rows, columns), biases);
}

bool takes_folded_convolution(const at::Tensor& x, const ConvolutionOptions& options) {
  return x.is_cuda() && !x.requires_grad() && x.size(1) <= kChannels && options.stride == 2 && options.dilation == 1 &&
         options.groups == 1 && takes_own_operators();
}

}  // namespace osprey::nn
