#include "kernels/normalized_convolution_steps.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "kernels/cpu/normalized_convolution.h"
#include "kernels/cpu/sliding_products.h"
#include "kernels/cpu/winograd.h"
#include "kernels/device/channels.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/with_elements.h"
#include "kernels/without_autocast.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

bool slides_by_amx(const at::Tensor& x, const at::Tensor& weights) {
  return cpu::slides_by_amx(x.scalar_type(), weights.size(0), weights.size(1));
}

bool slides_over(const at::Tensor& x, const at::Tensor& weights, const cpu::Sides& sides) {
  const bool three_by_three = weights.size(2) == 3 && weights.size(3) == 3;
  return cpu::slide(sides) &&
         (slides_by_amx(x, weights) ||
          (three_by_three && cpu::normalizes_in_tiles(x.scalar_type(), weights.size(0), weights.size(1))));
}

struct WayOfSliding {
  decltype(&cpu::normalized_sliding) forward;
  decltype(&cpu::normalized_sliding_backward) backward;
};
/// Of windows that `slides_over` says slide.
WayOfSliding way_of_sliding(const at::Tensor& x, const at::Tensor& weights) {
  if (slides_by_amx(x, weights)) return {&cpu::normalized_sliding, &cpu::normalized_sliding_backward};
  return {&cpu::normalized_in_tiles, &cpu::normalized_in_tiles_backward};
}

/// Whether windows slide over all maps in one go.
bool slide_together(const std::vector<ConvolutionPlan>& plans, const at::Tensor& x) {
  return device::takes_loops(x) && std::ranges::all_of(plans, &ConvolutionPlan::slides);
}

/// Zeros around the map, as many as the window asks for; negative ones take them away again.
at::Tensor pad(const at::Tensor& x, const SlidingWindow& window, int64_t sign = 1) {
  const auto& [top, bottom, left, right] = window.padding;
  return at::constant_pad_nd(x, {sign * left, sign * right, sign * top, sign * bottom});
}

cpu::Convolved composed(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights,
                        const ConvolutionPlan& plan) {
  const WithoutAutocast scope;
  const at::Tensor floats = x.to(at::kFloat), values = affine ? normalize(floats, *affine) : floats;
  const at::Tensor y = plan.depthwise
                           ? depthwise_convolution(values, weights, plan.window)
                           : channels_last(at::conv2d(pad(values, plan.window), weights, {}, plan.window.stride));
  const at::Tensor rounded = y.to(x.scalar_type());
  return {rounded, added_up(moments(rounded))};
}

/// The gradient of a map, that which flows through its statistics included.
cpu::ConvolvedGradients composed_backward(const cpu::ThroughStatistics& gradient, const at::Tensor& map,
                                          const std::optional<Affine>& affine, const at::Tensor& weights,
                                          const ConvolutionPlan& plan, bool of_x) {
  const WithoutAutocast scope;
  const Affine plain(gradient.y, gradient.scale, {}, gradient.mean, at::ones_like(gradient.mean), Epilogue{});
  const at::Tensor x = map.to(at::kFloat), total = spread(gradient.gradient.to(at::kFloat), gradient.y.to(at::kFloat),
                                                          plain, gradient.slope, gradient.offset);
  const at::Tensor values = affine ? normalize(x, *affine) : x;
  cpu::ConvolvedGradients result;
  if (plan.depthwise) {
    std::tie(result.x, result.weights) = depthwise_convolution_backward(total, values, weights, plan.window, of_x);
  } else {
    const int64_t stride = plan.window.stride;
    std::tie(result.x, result.weights, std::ignore) = at::convolution_backward(
        total, pad(values, plan.window), weights, at::OptionalIntArrayRef(), {stride, stride}, /*padding=*/{0, 0},
        /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, {of_x, true, false});
    if (of_x) result.x = channels_last(pad(result.x, plan.window, /*sign=*/-1));
  }
  if (affine) {
    result.moments = added_up(gradient_moments(result.x, x, *affine));
    const at::Tensor none = at::zeros_like(affine->mean);
    result.x = spread(result.x, x, *affine, none, none);
  }
  if (of_x) result.x = result.x.to(map.scalar_type());
  return result;
}

}  // namespace

ConvolutionPlan::ConvolutionPlan(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& moves)
    : window(moves),
      sides(x, weights, moves.stride, moves.padding),
      depthwise(is_depthwise(x, weights)),
      slides(slides_over(x, weights, sides)) {
  TORCH_CHECK(depthwise || weights.size(1) == x.size(1),
              "expected maps [B, C, H, W] and weights [C, 1, height, width] or [O, C, height, width], got ", x.sizes(),
              " and ", weights.sizes());
  TORCH_CHECK(is_element(x.scalar_type()) && weights.scalar_type() == at::kFloat,
              "expected maps of float32 or half the bits and weights of float32, got ", x.toString(), " and ",
              weights.toString());
  TORCH_CHECK(weights.size(0) > 0, "expected weights of at least one channel, got ", weights.sizes());
  sizes = {x.size(0), weights.size(0), sides.lines.to, sides.pixels.to};
}

bool ConvolutionPlan::takes_loops(const at::Tensor& x) const {
  return device::takes_loops(x) && (depthwise || sizes[0] * sizes[2] * sizes[3] >= cpu::kLeastPlaces);
}

bool is_depthwise(const at::Tensor& x, const at::Tensor& weights) {
  return weights.size(1) == 1 && weights.size(0) == x.size(1);
}

bool takes_windows(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window) {
  if (std::max(weights.size(2), weights.size(3)) > cpu::kMostTaps) return false;
  if (window.stride > 1) return weights.size(0) >= 32;
  return slides_over(x, weights, cpu::Sides(x, weights, window.stride, window.padding));
}

at::Tensor as_parameter(const at::Tensor& weights) {
  const int64_t I = weights.size(1), height = weights.size(2), width = weights.size(3);
  return channels_last(weights).as_strided(weights.sizes(), {I * height * width, 1, width * I, I});
}

std::vector<cpu::Convolved> convolve(at::TensorList maps, const std::vector<std::optional<Affine>>& affines,
                                     const at::Tensor& weights, const std::vector<ConvolutionPlan>& plans) {
  if (slide_together(plans, maps[0])) return way_of_sliding(maps[0], weights).forward(maps, affines, weights);
  std::vector<cpu::Convolved> results;
  for (size_t i = 0; i < maps.size(); ++i) {
    const auto way = !plans[i].takes_loops(maps[i]) ? nullptr
                     : plans[i].depthwise           ? &cpu::normalized_depthwise
                                                    : &cpu::normalized_dense;
    results.push_back(way ? way(maps[i], affines[i], weights, plans[i].sides)
                          : composed(maps[i], affines[i], weights, plans[i]));
  }
  return results;
}

MapWithStatistics with_statistics(const cpu::Convolved& convolved, double epsilon) {
  const auto count = static_cast<double>(convolved.y.numel() / convolved.y.size(1));
  const auto [mean, inverse_deviation] = statistics(convolved.moments, count, epsilon);
  return {convolved.y, mean, inverse_deviation};
}

cpu::ThroughStatistics through_statistics(const MapWithStatistics& gradient, const MapWithStatistics& result,
                                          const at::Tensor& scale) {
  const auto contiguous = [](const at::Tensor& values) { return values.defined() ? values.contiguous() : values; };
  const at::Tensor of_mean = contiguous(gradient.mean), of_deviation = contiguous(gradient.inverse_deviation),
                   deviation = result.inverse_deviation.contiguous(), y = channels_last(result.y);
  cpu::ThroughStatistics through{.y = y,
                                 .mean = result.mean.contiguous(),
                                 .slope = at::empty_like(deviation),
                                 .offset = at::empty_like(deviation)};
  if (gradient.y.defined()) {
    through.gradient = channels_last(gradient.y.to(y.scalar_type()));
    through.scale = scale.defined() ? scale.contiguous() : at::ones_like(through.mean);
  } else {  // y, which is read anyway, stands for the gradient, times zero
    through.gradient = y;
    through.scale = at::zeros_like(through.mean);
  }
  device::for_each(
      y, y.size(1),
      device::ThroughStatisticsOf{device::data<const float>(of_mean), device::data<const float>(of_deviation),
                                  deviation.const_data_ptr<float>(), static_cast<float>(y.numel() / y.size(1)),
                                  through.slope.mutable_data_ptr<float>(), through.offset.mutable_data_ptr<float>()});
  return through;
}

cpu::SharedGradients convolve_backward(const std::vector<cpu::ThroughStatistics>& gradients, at::TensorList maps,
                                       const std::vector<std::optional<Affine>>& affines, const at::Tensor& weights,
                                       const std::vector<ConvolutionPlan>& plans, bool of_x) {
  if (slide_together(plans, maps[0]))
    return way_of_sliding(maps[0], weights).backward(gradients, maps, affines, weights, of_x);
  cpu::SharedGradients results;
  for (size_t i = 0; i < maps.size(); ++i) {
    const auto way = !plans[i].takes_loops(maps[i]) ? nullptr
                     : plans[i].depthwise           ? &cpu::normalized_depthwise_backward
                                                    : &cpu::normalized_dense_backward;
    const cpu::ConvolvedGradients own =
        way ? way(gradients[i], maps[i], affines[i], weights, plans[i].sides, of_x)
            : composed_backward(gradients[i], maps[i], affines[i], weights, plans[i], of_x);
    results.maps.push_back(own);
    results.weights = results.weights.defined() ? results.weights + own.weights : own.weights;
  }
  return results;
}

}  // namespace osprey::kernels
