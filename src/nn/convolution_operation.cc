#include "nn/convolution_operation.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "osprey/kernels/convolution_gradient.h"

namespace osprey::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A convolution whose weight gradient is made of matrix products.
class MultiplyingConvolution : public torch::autograd::Function<MultiplyingConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const std::optional<at::Tensor>& biases, const kernels::ConvolutionWindow& window) {
    context->save_for_backward({x, weights});
    context->saved_data["biased"] = biases.has_value();
    context->saved_data["window"] =
        std::vector<int64_t>{window.kernel[0], window.kernel[1], window.stride, window.padding[0], window.padding[1]};
    return at::conv2d(x, weights, biases, {window.stride, window.stride}, window.padding);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1];
    const auto values = context->saved_data["window"].toIntVector();
    const kernels::ConvolutionWindow window{{values[0], values[1]}, values[2], {values[3], values[4]}};
    const at::Tensor gradient = gradients[0].contiguous(at::MemoryFormat::ChannelsLast);
    variable_list result(4);
    if (context->needs_input_grad(0))
      result[0] = std::get<0>(at::convolution_backward(
          gradient, x, weights, at::OptionalIntArrayRef(), {window.stride, window.stride}, window.padding,
          /*dilation=*/{1, 1}, /*transposed=*/false, /*output_padding=*/{0, 0}, /*groups=*/1, {true, false, false}));
    if (context->needs_input_grad(1)) result[1] = kernels::convolution_weight_gradient(gradient, x, window);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = gradient.sum(at::IntArrayRef{0, 2, 3});
    return result;
  }
};

/// A convolution of each channel by itself.
class DepthwiseConvolution : public torch::autograd::Function<DepthwiseConvolution> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const kernels::DepthwiseWindow& window) {
    context->save_for_backward({x, weights});
    context->saved_data["stride"] = window.stride;
    context->saved_data["padding"] = std::vector<int64_t>(window.padding.begin(), window.padding.end());
    return kernels::depthwise_convolution(x, weights, window);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    kernels::DepthwiseWindow window{context->saved_data["stride"].toInt(), {}};
    const auto padding = context->saved_data["padding"].toIntVector();
    std::copy(padding.begin(), padding.end(), window.padding.begin());
    const auto [of_x, of_weights] =
        kernels::depthwise_convolution_backward(gradients[0], saved[0], saved[1], window, context->needs_input_grad(0));
    return {of_x, of_weights, at::Tensor()};
  }
};

}  // namespace

at::Tensor depthwise_operation(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                               const kernels::DepthwiseWindow& window) {
  const at::Tensor y = DepthwiseConvolution::apply(x, weights, window);
  return biases.defined() ? y + biases.view({1, -1, 1, 1}) : y;
}

bool takes_depthwise_operation(const at::Tensor& x, const at::Tensor& weights, const ConvolutionOptions& options) {
  // An exported model has to do with the operations of libtorch.
  return options.groups == x.size(1) && options.dilation == 1 && !at::tracer::impl::is_dispatch_enabled() &&
         !at::autocast::is_autocast_enabled(at::kCPU) && kernels::takes_depthwise(x, weights);
}

at::Tensor convolution_operation(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                                 const ConvolutionOptions& options, std::array<int64_t, 2> padding) {
  const kernels::ConvolutionWindow window{options.kernel, options.stride, padding};
  const bool wants_gradient = at::GradMode::is_enabled() && weights.requires_grad();
  if (wants_gradient && options.groups == 1 && options.dilation == 1 && !at::autocast::is_autocast_enabled(at::kCPU) &&
      kernels::multiplies_weight_gradient(x, weights, window))
    return MultiplyingConvolution::apply(x, weights, biases.defined() ? std::optional(biases) : std::nullopt, window);
  return at::conv2d(x, weights, biases, {options.stride, options.stride}, padding, {options.dilation, options.dilation},
                    options.groups);
}

}  // namespace osprey::nn
