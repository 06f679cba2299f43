#include "nn/folded_convolution.h"

#include <ATen/ATen.h>

#include "nn/convolution_operation.h"
#include "osprey/kernels/fold_pixels.h"

namespace osprey::nn {
namespace {

constexpr int64_t kChannels = kernels::kMostFoldedChannels;

/// How a side of the map is folded. Its first window begins with the first folded pixel, and every other two pixels,
/// which is one folded pixel, further.
struct FoldedSide {
  /// padding  zeros on both sides of the side      kernel  taps
  FoldedSide(int64_t side, int64_t kernel, int64_t padding) : taps((kernel + 1) / 2), more_taps(2 * taps - kernel) {
    TORCH_CHECK(side + padding >= kernel, "a window of ", kernel, " does not fit into ", side, " pixels and ", padding,
                " zeros");
    size = (side + padding - kernel) / 2 + taps;
  }
  int64_t taps;       ///< folded ones
  int64_t more_taps;  ///< zeros behind the taps
  int64_t size;       ///< folded pixels
};

/// [O, C, kernel height, kernel width] -> [O, 16, folded taps, folded taps], channels_last
at::Tensor folded_weights(const at::Tensor& weights, const FoldedSide& rows, const FoldedSide& columns) {
  const at::Tensor padded =
      at::constant_pad_nd(weights, {0, columns.more_taps, 0, rows.more_taps, 0, kChannels - weights.size(1)});
  return padded.view({weights.size(0), kChannels, rows.taps, 2, columns.taps, 2})
      .permute({0, 2, 4, 3, 5, 1})
      .reshape({weights.size(0), rows.taps, columns.taps, 4 * kChannels})
      .permute({0, 3, 1, 2});
}

}  // namespace

at::Tensor folded_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                              const kernels::SlidingWindow& window) {
  const auto& [above, below, left, right] = window.padding;
  TORCH_CHECK(window.stride == 2 && x.size(1) == weights.size(1), "expected weights of ", x.size(1),
              " channels and a window that moves by two, got ", weights.sizes(), " and ", window.stride);
  const FoldedSide rows(x.size(2), weights.size(2), above + below), columns(x.size(3), weights.size(3), left + right);
  const at::Tensor pictures = kernels::fold_pixels(as_autocast(x), {above, left}, {rows.size, columns.size});
  return at::conv2d(pictures, folded_weights(weights, rows, columns), biases);
}

bool takes_folded_convolution(const at::Tensor& x, const ConvolutionOptions& options) {
  return x.is_cuda() && !x.requires_grad() && options.stride == 2 && options.dilation == 1 && options.groups == 1 &&
         takes_own_operators() && kernels::takes_fold_pixels(x);
}

}  // namespace osprey::nn
