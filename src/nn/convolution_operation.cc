#include "nn/convolution_operation.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/batch_norm_steps.h"
#include "kernels/if_defined.h"
#include "kernels/no_second_derivative.h"
#include "kernels/without_autocast.h"
#include "osprey/base/cpu.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/pointwise_convolution.h"
#include "osprey/kernels/sliding_convolution.h"

namespace osprey::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Whether the network may be made of our operators: an exported one has to do with those of libtorch.
bool takes_own_operators() { return !at::tracer::impl::is_dispatch_enabled(); }

/// Whether the numbers of a map should become floats, as the weights are, before libtorch multiplies them: those that a
/// CPU has no instructions for.
bool widens(const at::Tensor& map, const at::Tensor& weights) {
  return map.is_cpu() && weights.scalar_type() == at::kFloat &&
         (map.scalar_type() == at::kHalf || (map.scalar_type() == at::kBFloat16 && !has_bfloat16_arithmetic()));
}

/// Whether the map is multiplied place by place.
bool is_pointwise(const at::Tensor& x, const at::Tensor& weights, const kernels::ConvolutionWindow& window) {
  return window.stride == 1 && window.padding == std::array<int64_t, 2>{0, 0} && kernels::takes_pointwise(x, weights);
}

/// Whether the window moves over the maps by one and keeps their size, in a faster way than libtorch's.
bool slides(at::TensorList maps, const at::Tensor& weights, const kernels::ConvolutionWindow& window) {
  return window.stride == 1 && 2 * window.padding[0] == window.kernel[0] - 1 &&
         2 * window.padding[1] == window.kernel[1] - 1 && kernels::takes_sliding(maps, weights);
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                     const kernels::ConvolutionWindow& window) {
  if (is_pointwise(x, weights, window)) return kernels::pointwise_convolution(x, weights, biases);
  return at::conv2d(x.to(at::kFloat), weights, biases, {window.stride, window.stride}, window.padding)
      .to(x.scalar_type());
}

/// The gradient like x, of which the values do not matter.
at::Tensor gradient_of_map(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weights,
                           const kernels::ConvolutionWindow& window) {
  if (is_pointwise(x, weights, window)) return kernels::pointwise_convolution_gradient(gradient, weights);
  const at::Tensor floats = x.scalar_type() == at::kFloat ? x : at::empty_like(x, at::kFloat);
  return std::get<0>(at::convolution_backward(gradient.to(at::kFloat), floats, weights, at::OptionalIntArrayRef(),
                                              {window.stride, window.stride}, window.padding,
                                              /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0},
                                              /*groups=*/1, {true, false, false}))
      .to(x.scalar_type());
}

bool multiply_weight_gradient(at::TensorList maps, const at::Tensor& weights,
                              const kernels::ConvolutionWindow& window) {
  return std::ranges::all_of(
      maps, [&](const at::Tensor& map) { return kernels::multiplies_weight_gradient(map, weights, window); });
}

at::Tensor gradient_of_weights(const variable_list& gradients, const variable_list& maps, const at::Tensor& weights,
                               const kernels::ConvolutionWindow& window) {
  if (multiply_weight_gradient(maps, weights, window))
    return kernels::convolution_weight_gradient(gradients, maps, window);
  at::Tensor total;
  for (size_t i = 0; i < maps.size(); ++i) {
    const at::Tensor own = std::get<1>(at::convolution_backward(
        gradients[i].to(at::kFloat), maps[i].to(at::kFloat), weights, at::OptionalIntArrayRef(),
        {window.stride, window.stride}, window.padding, /*dilation=*/{1, 1}, /*transposed=*/false,
        /*output_padding=*/{0, 0}, /*groups=*/1, {false, true, false}));
    total = total.defined() ? total + own : own;
  }
  return total;
}

/// A convolution of one or more maps by our own operators in those directions where they are faster than libtorch's.
/// Maps may have half the bits, weights are float32 and so is all arithmetic.
class OwnConvolution : public torch::autograd::Function<OwnConvolution> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList maps, const at::Tensor& weights,
                               const std::optional<at::Tensor>& biases, const kernels::ConvolutionWindow& window) {
    const kernels::WithoutAutocast scope;
    variable_list saved = maps.vec();
    saved.push_back(weights);
    context->save_for_backward(saved);
    context->saved_data["biased"] = biases.has_value();
    context->saved_data["window"] =
        std::vector<int64_t>{window.kernel[0], window.kernel[1], window.stride, window.padding[0], window.padding[1]};
    if (slides(maps, weights, window))
      return kernels::sliding_convolution(maps, weights, biases.value_or(at::Tensor()));
    variable_list results;
    for (const at::Tensor& map : maps)
      results.push_back(convolved(map, weights, biases.value_or(at::Tensor()), window));
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    kernels::refuse_second_derivative("a convolution");
    variable_list maps = context->get_saved_variables();
    const at::Tensor weights = maps.back();
    maps.pop_back();
    const size_t count = maps.size();
    const auto values = context->saved_data["window"].toIntVector();
    const kernels::ConvolutionWindow window{{values[0], values[1]}, values[2], {values[3], values[4]}};
    for (at::Tensor& gradient : gradients) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    variable_list result(count + 3);
    if (slides(maps, weights, window)) {
      bool wanted = false;
      for (size_t i = 0; i < count; ++i) wanted = wanted || context->needs_input_grad(i);
      if (wanted) std::ranges::copy(kernels::sliding_convolution_gradient(gradients, weights), result.begin());
    } else {
      for (size_t i = 0; i < count; ++i)
        if (context->needs_input_grad(i)) result[i] = gradient_of_map(gradients[i], maps[i], weights, window);
    }
    if (context->needs_input_grad(count)) result[count] = gradient_of_weights(gradients, maps, weights, window);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(count + 1))
      for (const at::Tensor& gradient : gradients) {
        at::Tensor& total = result[count + 1];
        total = total.defined() ? total + kernels::place_sums(gradient) : kernels::place_sums(gradient);
      }
    return result;
  }
};

}  // namespace

at::Tensor as_autocast(const at::Tensor& x) {
  const at::DeviceType device = x.device().type();
  const bool changes = (x.is_cpu() || x.is_cuda()) && at::isFloatingType(x.scalar_type()) &&
                       x.scalar_type() != at::kDouble && at::autocast::is_autocast_enabled(device);
  return changes ? x.to(at::autocast::get_autocast_dtype(device)) : x;
}

at::Tensor depthwise_operation(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                               const kernels::SlidingWindow& window) {
  const at::Tensor map = as_autocast(x);
  if (!biases.defined()) return kernels::depthwise_convolution(map, weights, window);
  const at::Tensor y = kernels::depthwise_convolution(map.to(at::kFloat), weights, window);
  return (y + biases.view({1, -1, 1, 1})).to(map.scalar_type());
}

bool takes_depthwise_operation(const at::Tensor& x, const at::Tensor& weights, const ConvolutionOptions& options) {
  return options.groups == x.size(1) && options.dilation == 1 && takes_own_operators() &&
         kernels::takes_depthwise(x, weights, options.stride);
}

bool takes_normalized_operation(const at::Tensor& x, const at::Tensor& weights, const ConvolutionOptions& options,
                                const kernels::SlidingWindow& window) {
  return at::GradMode::is_enabled() && options.dilation == 1 && takes_own_operators() &&
         (options.groups == 1 || options.groups == x.size(1)) &&
         kernels::takes_normalized_convolution(x, weights, window);
}

std::vector<at::Tensor> convolution_operation(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases,
                                              const ConvolutionOptions& options, std::array<int64_t, 2> padding) {
  const kernels::ConvolutionWindow window{options.kernel, options.stride, padding};
  const auto by_libtorch = [&](const at::Tensor& map) {
    return at::conv2d(map, weights, biases, {options.stride, options.stride}, padding,
                      {options.dilation, options.dilation}, options.groups);
  };
  std::vector<at::Tensor> results;
  if (!takes_own_operators()) {
    for (const at::Tensor& map : maps) results.push_back(by_libtorch(map));
    return results;
  }
  std::vector<at::Tensor> own;
  for (const at::Tensor& map : maps) own.push_back(as_autocast(map));
  const bool widened = widens(own[0], weights), of_floats = widened || own[0].scalar_type() == at::kFloat;
  if (options.groups == 1 && options.dilation == 1) {
    const bool wants_gradient = at::GradMode::is_enabled() && weights.requires_grad();
    const auto takes = [&](at::TensorList some) {
      return slides(some, weights, window) ||
             std::ranges::all_of(some, [&](const at::Tensor& map) { return is_pointwise(map, weights, window); }) ||
             (of_floats && wants_gradient && multiply_weight_gradient(some, weights, window));
    };
    if (takes(own)) return OwnConvolution::apply(at::TensorList(own), weights, kernels::if_defined(biases), window);
  }
  if (maps.size() > 1) {  // each its own way
    for (const at::Tensor& map : own)
      results.push_back(convolution_operation(map, weights, biases, options, padding).front());
    return results;
  }
  if (!widened) return {by_libtorch(own[0])};
  const kernels::WithoutAutocast scope;
  return {by_libtorch(own[0].to(at::kFloat)).to(own[0].scalar_type())};
}

}  // namespace osprey::nn
