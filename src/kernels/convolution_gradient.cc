#include "osprey/kernels/convolution_gradient.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/operator.h"
#include "osprey/base/cpu.h"

namespace osprey::kernels {
namespace {

using Sides = std::array<int64_t, 2>;  ///< height, width

Sides sides(const at::Tensor& map) { return {map.size(2), map.size(3)}; }

/// How far the taps of a kernel reach, in steps of the window.
Sides reach(const ConvolutionWindow& window) {
  return {(window.kernel[0] - 1) / window.stride, (window.kernel[1] - 1) / window.stride};
}

Sides output_sides(const at::Tensor& x, const ConvolutionWindow& window) {
  Sides result;
  for (size_t d = 0; d < 2; ++d)
    result[d] = (sides(x)[d] + 2 * window.padding[d] - window.kernel[d]) / window.stride + 1;
  return result;
}

/// Places of a map, picture after picture and line after line, as rows of channels. Lines and pictures are longer than
/// the map by `margin`, where there are zeros: a shifted window then is the same rows from a later one on.
struct PaddedRows {
  /// values  [B, H, W, C], written from place `first` on
  PaddedRows(const at::Tensor& values, const Sides& extent, const Sides& first, int64_t beyond) {
    const int64_t B = values.size(0), C = values.size(3);
    count = B * extent[0] * extent[1];
    rows = at::zeros({count + beyond, C}, values.options());
    rows.narrow(0, 0, count)
        .view({B, extent[0], extent[1], C})
        .narrow(1, first[0], values.size(1))
        .narrow(2, first[1], values.size(2))
        .copy_(values);
  }
  at::Tensor rows;  ///< [count + beyond, C]
  int64_t count;
};

/// The places of x, [B, H, W, I], that a tap at `offset` sees, as far as they are not padding: every stride-th. `first`
/// becomes the number of the first of them.
at::Tensor phase(const at::Tensor& x, const ConvolutionWindow& window, const Sides& offset, const Sides& extent,
                 Sides& first) {
  at::Tensor result = x;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t before = std::max<int64_t>(window.padding[d] - offset[d], 0);
    first[d] = (before + window.stride - 1) / window.stride;
    const int64_t start = first[d] * window.stride + offset[d] - window.padding[d];
    const auto dimension = static_cast<int64_t>(d) + 1;
    result = result.slice(dimension, std::min(start, x.size(dimension)), x.size(dimension), window.stride);
    result = result.slice(dimension, 0, extent[d] - first[d]);
  }
  return result;
}

at::Tensor weight_gradient(const at::Tensor& gradient_y, const at::Tensor& x, at::IntArrayRef kernel, int64_t stride,
                           at::IntArrayRef padding) {
  TORCH_CHECK(kernel.size() == 2 && padding.size() == 2 && stride > 0, "a window has two sides and a stride > 0");
  const ConvolutionWindow window{{kernel[0], kernel[1]}, stride, {padding[0], padding[1]}};
  TORCH_CHECK(x.dim() == 4 && gradient_y.dim() == 4 && x.size(0) == gradient_y.size(0) &&
                  sides(gradient_y) == output_sides(x, window),
              "a convolution of ", x.sizes(), " has no gradient of ", gradient_y.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat && gradient_y.scalar_type() == at::kFloat, "expected float32");
  const auto places = [](const at::Tensor& map) {
    return map.contiguous(at::MemoryFormat::ChannelsLast).permute({0, 2, 3, 1});
  };
  const at::Tensor input = places(x), gradient = places(gradient_y);
  const int64_t O = gradient.size(3), I = input.size(3), taps = window.kernel[0] * window.kernel[1];
  const Sides output = sides(gradient_y), more = reach(window);
  if (taps == 1 && window.padding == Sides{0, 0}) {
    const at::Tensor seen = input.slice(1, 0, input.size(1), window.stride).slice(2, 0, input.size(2), window.stride);
    return gradient.reshape({-1, O}).t().mm(seen.reshape({-1, I})).view({O, I, 1, 1});
  }
  const Sides extent = {output[0] + more[0], output[1] + more[1]};
  const PaddedRows wanted(gradient, extent, {0, 0}, 0);
  const at::Tensor result = at::empty({taps, O, I}, x.options());
  for (int64_t a = 0; a < std::min(window.stride, window.kernel[0]); ++a)
    for (int64_t b = 0; b < std::min(window.stride, window.kernel[1]); ++b) {
      Sides first;
      const at::Tensor seen = phase(input, window, {a, b}, extent, first);
      const PaddedRows rows(seen, extent, first, more[0] * extent[1] + more[1]);
      for (int64_t i = a; i < window.kernel[0]; i += window.stride)
        for (int64_t j = b; j < window.kernel[1]; j += window.stride) {
          const int64_t shift = i / window.stride * extent[1] + j / window.stride;
          at::Tensor tap = result[i * window.kernel[1] + j];
          at::mm_out(tap, wanted.rows.t(), rows.rows.narrow(0, shift, wanted.count));
        }
    }
  return result.transpose(0, 1).contiguous().view({O, window.kernel[0], window.kernel[1], I}).permute({0, 3, 1, 2});
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "convolution_weight_gradient(Tensor gradient_y, Tensor x, int[] kernel, int stride, int[] padding) -> Tensor",
         &weight_gradient);
}

}  // namespace

bool multiplies_weight_gradient(const at::Tensor& x, const at::Tensor& weights, const ConvolutionWindow& window) {
  const int64_t few_channels = window.kernel[0] * window.kernel[1] > 1 ? 64 : 128;
  constexpr double kMuchPadding = 1.25;
  if (!x.is_cpu() || x.scalar_type() != at::kFloat || weights.scalar_type() != at::kFloat || has_avx512() ||
      !x.is_contiguous(at::MemoryFormat::ChannelsLast) || x.numel() == 0)
    return false;
  if (weights.size(0) < few_channels || weights.size(1) < few_channels) return false;
  const Sides output = output_sides(x, window), more = reach(window);
  return static_cast<double>((output[0] + more[0]) * (output[1] + more[1])) <=
         kMuchPadding * static_cast<double>(output[0] * output[1]);
}

at::Tensor convolution_weight_gradient(const at::Tensor& gradient_y, const at::Tensor& x,
                                       const ConvolutionWindow& window) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("convolution_weight_gradient", &weight_gradient);
  return operation.call(gradient_y, x, window.kernel, window.stride, window.padding);
}

}  // namespace osprey::kernels
