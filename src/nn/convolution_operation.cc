#include "nn/convolution_operation.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

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

/// A convolution by libtorch but for the gradients of weights and biases. The map may have half the bits, weights are
/// float32 and so is all arithmetic.
class OwnWeightGradient : public torch::autograd::Function<OwnWeightGradient> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const std::optional<at::Tensor>& biases, const kernels::ConvolutionWindow& window) {
    const kernels::WithoutAutocast scope;
    context->save_for_backward({x, weights});
    context->saved_data["biased"] = biases.has_value();
    context->saved_data["window"] =
        std::vector<int64_t>{window.kernel[0], window.kernel[1], window.stride, window.padding[0], window.padding[1]};
    return at::conv2d(x.to(at::kFloat), weights, biases, {window.stride, window.stride}, window.padding)
        .to(x.scalar_type());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    kernels::refuse_second_derivative("a convolution");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1],
                     gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    const auto values = context->saved_data["window"].toIntVector();
    const kernels::ConvolutionWindow window{{values[0], values[1]}, values[2], {values[3], values[4]}};
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = gradient_of_map(gradient, x, weights, window);
    if (context->needs_input_grad(1)) result[1] = kernels::convolution_weight_gradient(gradient, x, window);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = kernels::convolution_bias_gradient(gradient);
    return result;
  }

 private:
  /// Of what it is like the values do not matter.
  static at::Tensor gradient_of_map(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& weights,
                                    const kernels::ConvolutionWindow& window) {
    const at::Tensor floats = x.scalar_type() == at::kFloat ? x : at::empty_like(x, at::kFloat);
    return std::get<0>(at::convolution_backward(gradient.to(at::kFloat), floats, weights, at::OptionalIntArrayRef(),
                                                {window.stride, window.stride}, window.padding,
                                                /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0},
                                                /*groups=*/1, {true, false, false}))
        .to(x.scalar_type());
  }
};

}  // namespace

bool takes_own_operators() { return !at::tracer::impl::is_dispatch_enabled(); }

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

kernels::SlidingWindow window_over(const at::Tensor& x, const ConvolutionOptions& options) {
  const PaddingAmount rows = padding_amount(options.padding, x.size(2), options.kernel[0], options.stride),
                      columns = padding_amount(options.padding, x.size(3), options.kernel[1], options.stride);
  return {options.stride, {rows.before, rows.after, columns.before, columns.after}};
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
  const bool takes_own = takes_own_operators(), has_own = takes_own && options.groups == 1 && options.dilation == 1;
  std::vector<at::Tensor> own, results;
  for (const at::Tensor& map : maps) own.push_back(takes_own ? as_autocast(map) : map);
  if (has_own && slides(own, weights, window)) return kernels::sliding_convolution(own, weights, biases);
  const auto by_libtorch = [&](const at::Tensor& map) {
    return at::conv2d(map, weights, biases, {options.stride, options.stride}, padding,
                      {options.dilation, options.dilation}, options.groups);
  };
  for (const at::Tensor& map : own) {
    const bool widened = takes_own && widens(map, weights);
    if (has_own && is_pointwise(map, weights, window)) {
      results.push_back(kernels::pointwise_convolution(map, weights, biases));
    } else if (has_own && (widened || map.scalar_type() == at::kFloat) && at::GradMode::is_enabled() &&
               weights.requires_grad() && kernels::multiplies_weight_gradient(map, weights, window)) {
      results.push_back(OwnWeightGradient::apply(map, weights, kernels::if_defined(biases), window));
    } else if (widened) {
      const kernels::WithoutAutocast scope;
      results.push_back(by_libtorch(map.to(at::kFloat)).to(map.scalar_type()));
    } else {
      results.push_back(by_libtorch(map));
    }
  }
  return results;
}

}  // namespace osprey::nn
