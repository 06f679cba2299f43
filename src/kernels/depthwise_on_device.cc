#include "kernels/depthwise_on_device.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>

#include "kernels/device/column_sums.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"

namespace osprey::kernels {

bool DepthwiseOnDevice::takes(const at::Tensor& weights, int64_t stride) {
  const int64_t kernel = weights.size(2);
  return weights.size(0) % device::kDepthwiseWidth == 0 && weights.size(3) == kernel && (kernel == 3 || kernel == 5) &&
         stride <= 2;
}

at::Tensor DepthwiseOnDevice::readable(const at::Tensor& given) {
  const at::Tensor map = channels_last(given);
  const size_t at_once = device::kDepthwiseWidth * map.element_size();
  return device::begins_at_multiple(map.const_data_ptr(), at_once) ? map : map.clone();
}

DepthwiseOnDevice::DepthwiseOnDevice(const at::Tensor& x, const at::Tensor& weights, const cpu::Sides& sides)
    : x_(readable(x)),
      weights_(weights),
      kernel_(static_cast<int>(sides.lines.kernel)),
      stride_(sides.lines.stride),
      window_{static_cast<int>(sides.lines.from),   static_cast<int>(sides.pixels.from),
              static_cast<int>(sides.lines.to),     static_cast<int>(sides.pixels.to),
              static_cast<int>(sides.lines.before), static_cast<int>(sides.pixels.before),
              static_cast<int>(x.size(1))} {}

at::Tensor DepthwiseOnDevice::of_taps(Turned turned) const {
  const at::Tensor taps = weights_.reshape({window_.depth, kernel_ * kernel_}).t();
  return (turned == Turned::kYes ? taps.flip(0) : taps).clone(at::MemoryFormat::Contiguous);  // where reads may begin
}

/// Calls run(null pointer of the numbers' type, taps of a side), the latter as a number that the compiler knows.
template <class Run>
void DepthwiseOnDevice::with_types(Run run) const {
  with_elements(x_.scalar_type(), [&](auto* type) {
    kernel_ == 3 ? run(type, std::integral_constant<int, 3>()) : run(type, std::integral_constant<int, 5>());
  });
}

/// With the stride that the window has, or 1 where it is turned.
at::Tensor DepthwiseOnDevice::convolve(const at::Tensor& x, Turned turned,
                                       const device::DepthwiseWindow& window) const {
  const at::Tensor y = empty_map({x.size(0), window.depth, window.lines, window.pixels}, x), taps = of_taps(turned);
  with_types([&](auto* type, auto kernel) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto run = [&](auto stride) {
      using Forward = device::DepthwiseForward<T, kernel, stride>;
      const device::DepthwiseBands bands(x.size(0), window.lines, window.pixels, window.depth, Forward::kRun);
      device::launch(
          x, bands.blocks(),
          Forward{window, bands, device::data<const T>(x), taps.const_data_ptr<float>(), device::data<T>(y)});
    };
    stride_ == 1 ? run(std::integral_constant<int, 1>()) : run(std::integral_constant<int, 2>());
  });
  return y;
}

at::Tensor DepthwiseOnDevice::forward() const { return convolve(x_, Turned::kNo, window_); }

at::Tensor DepthwiseOnDevice::gradient_of_map(const at::Tensor& gradient) const {
  if (stride_ == 1)  // what has seen a pixel is what a window sees that is turned around
    return convolve(gradient, Turned::kYes,
                    {window_.lines, window_.pixels, window_.height, window_.width, kernel_ - 1 - window_.above,
                     kernel_ - 1 - window_.left, window_.depth});
  const at::Tensor result = empty_map(x_.sizes(), x_), taps = of_taps(Turned::kNo);
  with_types([&](auto* type, auto kernel) {
    using T = std::remove_pointer_t<decltype(type)>;
    using Gradient = device::DepthwiseGradientByTwo<T, kernel>;
    const device::DepthwiseBands bands(x_.size(0), Gradient::pairs(window_.height, window_.above),
                                       Gradient::pixels(window_.width, window_.left), window_.depth, Gradient::kRun);
    device::launch(gradient, bands.blocks(),
                   Gradient{window_, bands, device::data<const T>(gradient), taps.const_data_ptr<float>(),
                            device::data<T>(result)});
  });
  return result;
}

/// Strips of the result, as long as there are enough of them for all threads of a GPU, several times.
template <int kRun>
device::Strips<kRun> DepthwiseOnDevice::strips() const {
  constexpr int64_t kEnough = 1 << 19, kLeastLines = 4;
  const int64_t of_a_line =
                    x_.size(0) * device::blocks_for(window_.pixels, kRun) * window_.depth / device::kDepthwiseWidth,
                wanted = device::blocks_for(kEnough, std::max<int64_t>(1, of_a_line));
  return {window_.lines, window_.pixels, std::max(device::blocks_for(window_.lines, wanted), kLeastLines)};
}

at::Tensor DepthwiseOnDevice::gradient_of_weights(const at::Tensor& gradient) const {
  const int64_t depth = window_.depth, taps = kernel_ * kernel_;
  const at::Tensor result = at::empty({taps, depth}, x_.options().dtype(at::kDouble));
  with_types([&](auto* type, auto kernel) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto run = [&](auto stride) {
      using Sums = device::DepthwiseWeightSums<T, kernel, stride>;
      const auto all = strips<Sums::kRun>();
      const device::RowShares<device::kDepthwiseWidth, Sums::kThreads> own(x_.size(0) * all.of_a_picture(), depth,
                                                                           Sums::kMostBlocks, /*least_rows=*/1);
      const at::Tensor parts = at::empty({own.row_blocks, taps, depth}, result.options());
      device::launch(x_, own.blocks(),
                     Sums{own, all, window_, device::data<const T>(gradient), device::data<const T>(x_),
                          parts.mutable_data_ptr<double>()});
      const int64_t half = taps * depth / 2;  // channels come by fours
      const device::AddParts<device::KeepSums> add{
          parts.const_data_ptr<double>(), own.row_blocks, half, {half, result.mutable_data_ptr<double>()}};
      device::launch(x_, add.blocks(), add);
    };
    stride_ == 1 ? run(std::integral_constant<int, 1>()) : run(std::integral_constant<int, 2>());
  });
  return result.t().to(at::kFloat).contiguous().reshape(weights_.sizes());
}

}  // namespace osprey::kernels
