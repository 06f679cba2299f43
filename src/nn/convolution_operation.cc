#include "nn/convolution_operation.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/batch_norm_steps.h"
#include "kernels/if_defined.h"
#include "kernels/without_autocast.h"
#include "osprey/base/cpu.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/pointwise_convolution.h"
#include "osprey/kernels/winograd_convolution.h"

namespace osprey::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Whether the network may be made of our operators: an exported one has to do with those of libtorch, which also know
/// how to multiply tiles of bfloat16 numbers.
bool takes_own_operators() {
  const bool by_tiles = at::autocast::is_autocast_enabled(at::kCPU) &&
                        at::autocast::get_autocast_dtype(at::kCPU) == at::kBFloat16 && has_bfloat16_tiles();
  return !at::tracer::impl::is_dispatch_enabled() && !by_tiles;
}

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

/// Whether the map is convolved by tiles that take fewer products.
bool is_in_tiles(const at::Tensor& x, const at::Tensor& weights, const kernels::ConvolutionWindow& window) {
  return window.stride == 1 && window.padding == std::array<int64_t, 2>{1, 1} && kernels::takes_winograd(x, weights);
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                     const kernels::ConvolutionWindow& window) {
  if (is_pointwise(x, weights, window)) return kernels::pointwise_convolution(x, weights, biases);
  if (is_in_tiles(x, weights, window)) return kernels::winograd_convolution(x, weights, biases);
  return at::conv2d(x.to(at::kFloat), weights, biases, {window.stride, window.stride}, window.padding)
      .to(x.scalar_type());
}

/// The gradient like x, of which the values do not matter.
at::Tensor gradient_of_x(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weights,
                         const kernels::ConvolutionWindow& window) {
  if (is_pointwise(x, weights, window)) return kernels::pointwise_convolution_gradient(gradient, weights);
  if (is_in_tiles(x, weights, window)) return kernels::winograd_convolution_gradient(gradient, weights);
  const at::Tensor floats = x.scalar_type() == at::kFloat ? x : at::empty_like(x, at::kFloat);
  return std::get<0>(at::convolution_backward(gradient.to(at::kFloat), floats, weights, at::OptionalIntArrayRef(),
                                              {window.stride, window.stride}, window.padding,
                                              /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0},
                                              /*groups=*/1, {true, false, false}))
      .to(x.scalar_type());
}

at::Tensor gradient_of_weights(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weights,
                               const kernels::ConvolutionWindow& window) {
  if (kernels::multiplies_weight_gradient(x, weights, window))
    return kernels::convolution_weight_gradient(gradient, x, window);
  return std::get<1>(at::convolution_backward(gradient.to(at::kFloat), x.to(at::kFloat), weights,
                                              at::OptionalIntArrayRef(), {window.stride, window.stride}, window.padding,
                                              /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0},
                                              /*groups=*/1, {false, true, false}));
}

/// A convolution by our own operators in those directions where they are faster than libtorch's. Maps may have half the
/// bits, weights are float32 and so is all arithmetic.
class OwnConvolution : public torch::autograd::Function<OwnConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const std::optional<at::Tensor>& biases, const kernels::ConvolutionWindow& window) {
    const kernels::WithoutAutocast scope;
    context->save_for_backward({x, weights});
    context->saved_data["biased"] = biases.has_value();
    context->saved_data["window"] =
        std::vector<int64_t>{window.kernel[0], window.kernel[1], window.stride, window.padding[0], window.padding[1]};
    return convolved(x, weights, biases.value_or(at::Tensor()), window);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1];
    const auto values = context->saved_data["window"].toIntVector();
    const kernels::ConvolutionWindow window{{values[0], values[1]}, values[2], {values[3], values[4]}};
    const at::Tensor gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = gradient_of_x(gradient, x, weights, window);
    if (context->needs_input_grad(1)) result[1] = gradient_of_weights(gradient, x, weights, window);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = kernels::place_sums(gradient);
    return result;
  }
};

}  // namespace

at::Tensor as_autocast(const at::Tensor& x) {
  const bool changes = x.is_cpu() && at::isFloatingType(x.scalar_type()) && x.scalar_type() != at::kDouble &&
                       at::autocast::is_autocast_enabled(at::kCPU);
  return changes ? x.to(at::autocast::get_autocast_dtype(at::kCPU)) : x;
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
         kernels::takes_depthwise(x, weights);
}

bool takes_normalized_operation(const at::Tensor& x, const at::Tensor& weights, const ConvolutionOptions& options,
                                const kernels::SlidingWindow& window) {
  return at::GradMode::is_enabled() && options.dilation == 1 && takes_own_operators() &&
         (options.groups == 1 || options.groups == x.size(1)) &&
         kernels::takes_normalized_convolution(x, weights, window);
}

at::Tensor convolution_operation(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                                 const ConvolutionOptions& options, std::array<int64_t, 2> padding) {
  const kernels::ConvolutionWindow window{options.kernel, options.stride, padding};
  const auto by_libtorch = [&](const at::Tensor& map) {
    return at::conv2d(map, weights, biases, {options.stride, options.stride}, padding,
                      {options.dilation, options.dilation}, options.groups);
  };
  if (!takes_own_operators()) return by_libtorch(x);
  const at::Tensor map = as_autocast(x);
  const bool widened = widens(map, weights), of_floats = widened || map.scalar_type() == at::kFloat;
  if (options.groups == 1 && options.dilation == 1) {
    const bool wants_gradient = at::GradMode::is_enabled() && weights.requires_grad();
    if (is_pointwise(map, weights, window) || is_in_tiles(map, weights, window) ||
        (of_floats && wants_gradient && kernels::multiplies_weight_gradient(map, weights, window)))
      return OwnConvolution::apply(map, weights, kernels::if_defined(biases), window);
  }
  if (!widened) return by_libtorch(map);
  const kernels::WithoutAutocast scope;
  return by_libtorch(map.to(at::kFloat)).to(map.scalar_type());
}

}  // namespace osprey::nn
