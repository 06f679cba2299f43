#include "osprey/kernels/normalized_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/normalized_convolution.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/sliding_convolution.h"
#include "kernels/cpu/sliding_products.h"
#include "kernels/device/channels.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/operator.h"
#include "kernels/pending_steps.h"
#include "kernels/window_of.h"
#include "kernels/with_elements.h"
#include "kernels/without_autocast.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

using Optional = std::optional<at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using SixTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Whether the convolution is one of each channel by itself, not of all of them.
bool is_depthwise(const at::Tensor& x, const at::Tensor& weights) {
  return weights.size(1) == 1 && weights.size(0) == x.size(1);
}

/// Whether windows slide over the map, instead of what they see being brought together.
bool slides_over(const at::Tensor& x, const at::Tensor& weights, const cpu::Sides& sides) {
  return cpu::slide(sides) && cpu::slides_by_amx(x.scalar_type(), weights.size(0), weights.size(1));
}

/// Which convolution it is and how its window moves over the map.
struct Plan {
  Plan(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& moves)
      : window(moves),
        sides(x, weights, moves.stride, moves.padding),
        depthwise(is_depthwise(x, weights)),
        slides(slides_over(x, weights, sides)) {
    TORCH_CHECK(depthwise || weights.size(1) == x.size(1),
                "expected maps [B, C, H, W] and weights [C, 1, height, width] or [O, C, height, width], got ",
                x.sizes(), " and ", weights.sizes());
    TORCH_CHECK(is_element(x.scalar_type()) && weights.scalar_type() == at::kFloat,
                "expected maps of float32 or half the bits and weights of float32, got ", x.toString(), " and ",
                weights.toString());
    TORCH_CHECK(weights.size(0) > 0, "expected weights of at least one channel, got ", weights.sizes());
    sizes = {x.size(0), weights.size(0), sides.lines.to, sides.pixels.to};
  }
  SlidingWindow window;
  cpu::Sides sides;
  bool depthwise, slides;
  std::vector<int64_t> sizes;  ///< of the result

  bool takes_loops(const at::Tensor& x) const {
    return device::takes_loops(x) && (depthwise || sizes[0] * sizes[2] * sizes[3] >= cpu::kLeastPlaces);
  }
};

/// Whether products of what windows see are the faster way. Where windows move by one, that takes tiles of bfloat16
/// numbers; where they jump, and with few channels of the result, bringing rows together takes longer than multiplying.
bool takes_windows(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window) {
  if (std::max(weights.size(2), weights.size(3)) > cpu::kMostTaps) return false;
  if (window.stride > 1) return weights.size(0) >= 32;
  return slides_over(x, weights, cpu::Sides(x, weights, window.stride, window.padding));
}

/// Zeros around the map, as many as the window asks for; negative ones take them away again.
at::Tensor pad(const at::Tensor& x, const SlidingWindow& window, int64_t sign = 1) {
  const auto& [top, bottom, left, right] = window.padding;
  return at::constant_pad_nd(x, {sign * left, sign * right, sign * top, sign * bottom});
}

ThreeTensors convolve_operator(const at::Tensor& given, const Optional& mean, const Optional& inverse_deviation,
                               const Optional& gamma, const Optional& beta, double low, double high, int64_t curve,
                               const at::Tensor& weights, int64_t stride, at::IntArrayRef padding, double epsilon) {
  const Plan plan(given, weights, window_of(stride, padding));
  PendingMap input = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  if (given.is_meta())
    return {empty_map(plan.sizes, given), at::empty({weights.size(0)}, weights.options()),
            at::empty({weights.size(0)}, weights.options())};
  const at::Tensor x = input.x = channels_last(given);
  check_normalizable(x);
  const auto affine = affine_of(input);
  cpu::Convolved result;
  if (!plan.takes_loops(x)) {
    const WithoutAutocast scope;
    const at::Tensor floats = x.to(at::kFloat), values = affine ? normalize(floats, *affine) : floats;
    const at::Tensor y = plan.depthwise
                             ? depthwise_convolution(values, weights, plan.window)
                             : channels_last(at::conv2d(pad(values, plan.window), weights, {}, plan.window.stride));
    result.y = y.to(x.scalar_type());
    result.moments = moments(result.y);
  } else if (plan.depthwise) {
    result = cpu::normalized_depthwise(x, affine, weights, plan.sides);
  } else if (plan.slides) {
    result = cpu::normalized_sliding(x, affine, weights);
  } else {
    result = cpu::normalized_dense(x, affine, weights, plan.sides);
  }
  const auto count = static_cast<double>(result.y.numel() / result.y.size(1));
  const auto [y_mean, y_inverse_deviation] = statistics(result.moments, count, epsilon);
  return {result.y, y_mean, y_inverse_deviation};
}

/// The gradient of a map, that which flows through its statistics included.
cpu::ConvolvedGradients composed_backward(const cpu::ThroughStatistics& gradient, const at::Tensor& map,
                                          const std::optional<Affine>& affine, const at::Tensor& weights,
                                          const Plan& plan, bool of_x) {
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
    result.moments = gradient_moments(result.x, x, *affine);
    const at::Tensor none = at::zeros_like(affine->mean);
    result.x = spread(result.x, x, *affine, none, none);
  }
  if (of_x) result.x = result.x.to(map.scalar_type());
  return result;
}

at::Tensor empty_channels(const at::Tensor& x, bool any) {
  return at::empty({any ? x.size(1) : 0}, x.options().dtype(at::kFloat));
}

/// What the gradients of the statistics of y, where there are any, add to that of y: slope, offset.
std::pair<at::Tensor, at::Tensor> through_statistics(const at::Tensor& y, const Optional& of_mean,
                                                     const Optional& of_inverse_deviation,
                                                     const at::Tensor& inverse_deviation) {
  const auto channels = [](const Optional& gradient) { return gradient ? gradient->contiguous() : at::Tensor(); };
  const at::Tensor mean = channels(of_mean), deviation = channels(of_inverse_deviation),
                   slope = at::empty_like(inverse_deviation), offset = at::empty_like(inverse_deviation);
  device::for_each(
      y, y.size(1),
      device::ThroughStatisticsOf{device::data<const float>(mean), device::data<const float>(deviation),
                                  inverse_deviation.const_data_ptr<float>(), static_cast<float>(y.numel() / y.size(1)),
                                  slope.mutable_data_ptr<float>(), offset.mutable_data_ptr<float>()});
  return {slope, offset};
}

SixTensors convolve_backward_operator(const Optional& gradient_y, const Optional& gradient_mean,
                                      const Optional& gradient_inverse_deviation, const Optional& scale,
                                      const at::Tensor& y, const at::Tensor& y_mean,
                                      const at::Tensor& y_inverse_deviation, const at::Tensor& given,
                                      const Optional& mean, const Optional& inverse_deviation, const Optional& gamma,
                                      const Optional& beta, double low, double high, int64_t curve,
                                      const at::Tensor& weights, int64_t stride, at::IntArrayRef padding, bool of_x) {
  const Plan plan(given, weights, window_of(stride, padding));
  TORCH_CHECK(y.sizes() == at::IntArrayRef(plan.sizes) && y.scalar_type() == given.scalar_type() &&
                  (!gradient_y || gradient_y->sizes() == y.sizes()),
              "a convolution of ", given.toString(), " ", given.sizes(), " has no gradient of ", y.toString(), " ",
              gradient_y.value_or(y).sizes());
  PendingMap input = pending_map(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  for (const at::Tensor& of_y :
       {or_none(gradient_mean), or_none(gradient_inverse_deviation), or_none(scale), y_mean, y_inverse_deviation})
    check_channels(y, of_y, "statistics of the result, their gradients and a scale");
  const bool pending = mean.has_value();
  of_x = of_x || pending;
  if (given.is_meta())
    return {of_x ? empty_map(given.sizes(), given) : empty_map({0, 0, 0, 0}, given),
            empty_channels(given, pending),
            empty_channels(given, pending),
            empty_channels(given, pending),
            empty_channels(given, pending),
            empty_map(weights.sizes(), weights)};
  const at::Tensor x = input.x = channels_last(given), result_y = channels_last(y);
  check_normalizable(x);
  const auto affine = affine_of(input);
  const at::Tensor gradient =
      gradient_y ? channels_last(gradient_y->to(result_y.scalar_type())) : at::zeros_like(result_y);
  const auto [slope, offset] = through_statistics(y, gradient_mean, gradient_inverse_deviation, y_inverse_deviation);
  const cpu::ThroughStatistics through{gradient, result_y, y_mean, scale ? scale->contiguous() : at::ones_like(y_mean),
                                       slope,    offset};
  cpu::ConvolvedGradients result;
  if (!plan.takes_loops(x)) {
    result = composed_backward(through, x, affine, weights, plan, of_x);
  } else if (plan.depthwise) {
    result = cpu::normalized_depthwise_backward(through, x, affine, weights, plan.sides, of_x);
  } else if (plan.slides) {
    result = cpu::normalized_sliding_backward(through, x, affine, weights, of_x);
  } else {
    result = cpu::normalized_dense_backward(through, x, affine, weights, plan.sides, of_x);
  }
  if (!of_x) result.x = empty_map({0, 0, 0, 0}, x);
  // as a parameter of the trainer lies in memory, with the strides of its sizes even where these are one
  const int64_t I = weights.size(1), width = weights.size(3);
  result.weights =
      channels_last(result.weights).as_strided(weights.sizes(), {I * weights.size(2) * width, 1, width * I, I});
  const at::Tensor none = empty_channels(x, false);
  if (!affine) return {result.x, none, none.clone(), none.clone(), none.clone(), result.weights};
  const ChannelGradients channels = gradients_of_channels(x, result.moments, *affine, *inverse_deviation);
  return {result.x, channels.mean, channels.inverse_deviation, channels.gamma, channels.beta, result.weights};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "normalized_convolution(Tensor x, Tensor? mean, Tensor? inverse_deviation, Tensor? gamma, Tensor? beta, "
         "float low, float high, int curve, Tensor weights, int stride, int[] padding, float epsilon) -> (Tensor, "
         "Tensor, Tensor)",
         &convolve_operator);
  define(library,
         "normalized_convolution_backward(Tensor? gradient_y, Tensor? gradient_mean, Tensor? "
         "gradient_inverse_deviation, Tensor? scale, Tensor y, Tensor y_mean, Tensor y_inverse_deviation, Tensor x, "
         "Tensor? mean, Tensor? inverse_deviation, Tensor? gamma, Tensor? beta, float low, float high, int curve, "
         "Tensor weights, int stride, int[] padding, bool of_x) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
         &convolve_backward_operator);
}

}  // namespace

bool takes_normalized_convolution(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window) {
  if (x.dim() != 4 || weights.dim() != 4 || x.numel() == 0 || !device::takes_loops(x) || !is_element(x.scalar_type()) ||
      weights.scalar_type() != at::kFloat || !x.is_contiguous(at::MemoryFormat::ChannelsLast))
    return false;
  if (is_depthwise(x, weights)) return std::max(weights.size(2), weights.size(3)) <= cpu::kMostTaps;
  const bool one_by_one = weights.size(2) == 1 && weights.size(3) == 1 && window.stride == 1;
  return weights.size(1) == x.size(1) && (one_by_one || takes_windows(x, weights, window));
}

MapWithStatistics normalized_convolution(const PendingMap& input, const at::Tensor& weights,
                                         const SlidingWindow& window, double epsilon) {
  static const auto operation = find_operator("normalized_convolution", &convolve_operator);
  const auto [y, mean, inverse_deviation] =
      operation.call(input.x, if_defined(input.mean), if_defined(input.inverse_deviation), if_defined(input.gamma),
                     if_defined(input.beta), input.epilogue.low, input.epilogue.high,
                     static_cast<int64_t>(input.epilogue.curve), weights, window.stride, window.padding, epsilon);
  return {y, mean, inverse_deviation};
}

NormalizedConvolutionGradients normalized_convolution_backward(const MapWithStatistics& gradient,
                                                               const MapWithStatistics& result, const PendingMap& input,
                                                               const at::Tensor& weights, const SlidingWindow& window,
                                                               const ConvolutionGradientOptions& options) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("normalized_convolution_backward", &convolve_backward_operator);
  const auto [x, mean, inverse_deviation, gamma, beta, of_weights] =
      operation.call(if_defined(gradient.y), if_defined(gradient.mean), if_defined(gradient.inverse_deviation),
                     if_defined(options.scale), result.y, result.mean, result.inverse_deviation, input.x,
                     if_defined(input.mean), if_defined(input.inverse_deviation), if_defined(input.gamma),
                     if_defined(input.beta), input.epilogue.low, input.epilogue.high,
                     static_cast<int64_t>(input.epilogue.curve), weights, window.stride, window.padding, options.of_x);
  NormalizedConvolutionGradients all;
  all.weights = of_weights;
  if (options.of_x || input.mean.defined()) all.x = x;
  if (input.mean.defined())
    std::tie(all.mean, all.inverse_deviation, all.gamma, all.beta) = std::tie(mean, inverse_deviation, gamma, beta);
  return all;
}

}  // namespace osprey::kernels
