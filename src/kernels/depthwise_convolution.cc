#include "osprey/kernels/depthwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu/normalized_convolution.h"
#include "kernels/depthwise_on_device.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/window_of.h"
#include "kernels/with_elements.h"
#include "kernels/without_autocast.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::Sides sides_of(const at::Tensor& x, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(0) == x.size(1) && weights.size(1) == 1,
              "expected maps [B, C, H, W] and weights [C, 1, height, width], got ", x.sizes(), " and ",
              weights.sizes());
  TORCH_CHECK(is_element(x.scalar_type()) && weights.scalar_type() == at::kFloat,
              "expected maps of float32 or half the bits and weights of float32, got ", x.toString(), " and ",
              weights.toString());
  return {x, weights, stride, padding};
}

at::Tensor padded(const at::Tensor& x, at::IntArrayRef padding) {
  return at::constant_pad_nd(x, {padding[2], padding[3], padding[0], padding[1]});
}

at::Tensor depthwise_operator(const at::Tensor& x, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding) {
  const cpu::Sides sides = sides_of(x, weights, stride, padding);
  const int64_t sizes[] = {x.size(0), x.size(1), sides.lines.to, sides.pixels.to};
  if (x.is_meta()) return empty_map(sizes, x);
  if (x.numel() == 0) return empty_map(sizes, x).zero_();  // of no lines, but of padding there may be results
  if (device::takes_loops(x)) return cpu::depthwise(channels_last(x), weights, sides);
  const WithoutAutocast scope;
  if (DepthwiseOnDevice::takes(weights, stride)) return DepthwiseOnDevice(x, weights, sides).forward();
  return channels_last(at::conv2d(padded(x.to(at::kFloat), padding), weights, {}, {stride, stride},
                                  at::IntArrayRef{0, 0}, {1, 1}, x.size(1)))
      .to(x.scalar_type());
}

std::tuple<at::Tensor, at::Tensor> depthwise_backward_operator(const at::Tensor& gradient_y, const at::Tensor& x,
                                                               const at::Tensor& weights, int64_t stride,
                                                               at::IntArrayRef padding, bool of_x) {
  const cpu::Sides sides = sides_of(x, weights, stride, padding);
  TORCH_CHECK(gradient_y.sizes() == at::IntArrayRef({x.size(0), x.size(1), sides.lines.to, sides.pixels.to}) &&
                  is_element(gradient_y.scalar_type()),
              "a convolution of ", x.sizes(), " has no gradient of ", gradient_y.toString(), " ", gradient_y.sizes());
  const std::vector<int64_t> sizes = of_x ? x.sizes().vec() : std::vector<int64_t>{0, 0, 0, 0};
  if (x.is_meta()) return {empty_map(sizes, x), at::empty(weights.sizes(), weights.options())};
  if (x.numel() == 0) return {empty_map(sizes, x), at::zeros(weights.sizes(), weights.options())};
  if (device::takes_loops(x)) {
    const cpu::ConvolvedGradients gradients =
        cpu::depthwise_backward(channels_last(gradient_y.to(x.scalar_type())), channels_last(x), weights, sides, of_x);
    return {of_x ? gradients.x : empty_map(sizes, x), gradients.weights};
  }
  const WithoutAutocast scope;
  if (DepthwiseOnDevice::takes(weights, stride)) {
    const DepthwiseOnDevice convolution(x, weights, sides);
    const at::Tensor gradient = convolution.readable(gradient_y.to(x.scalar_type()));
    return {of_x ? convolution.gradient_of_map(gradient) : empty_map(sizes, x),
            convolution.gradient_of_weights(gradient)};
  }
  const at::Tensor wide = padded(x.to(at::kFloat), padding);
  const auto [of_wide, of_weights, none] = at::convolution_backward(
      gradient_y.to(at::kFloat), wide, weights, at::OptionalIntArrayRef(), {stride, stride}, {0, 0}, {1, 1},
      /*transposed=*/false, {0, 0}, x.size(1), {of_x, true, false});
  const at::Tensor gradient_x = empty_map(sizes, x);
  if (of_x) gradient_x.copy_(of_wide.narrow(2, padding[0], x.size(2)).narrow(3, padding[2], x.size(3)));
  return {gradient_x, of_weights.clone(at::MemoryFormat::Contiguous)};
}

class DepthwiseNode : public torch::autograd::Function<DepthwiseNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const SlidingWindow& window) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weights});
    context->saved_data["stride"] = window.stride;
    context->saved_data["padding"] = std::vector<int64_t>(window.padding.begin(), window.padding.end());
    return depthwise_convolution(x, weights, window);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("depthwise_convolution");
    const variable_list saved = context->get_saved_variables();
    const SlidingWindow window =
        window_of(context->saved_data["stride"].toInt(), context->saved_data["padding"].toIntVector());
    const auto [of_x, of_weights] =
        depthwise_convolution_backward(gradients[0], saved[0], saved[1], window, context->needs_input_grad(0));
    return {of_x, of_weights, at::Tensor()};
  }
};

at::Tensor differentiable_depthwise(const at::Tensor& x, const at::Tensor& weights, int64_t stride,
                                    at::IntArrayRef padding) {
  return DepthwiseNode::apply(x, weights, window_of(stride, padding));
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "depthwise_convolution(Tensor x, Tensor weights, int stride, int[] padding) -> Tensor",
         &depthwise_operator, &differentiable_depthwise);
  define(library,
         "depthwise_convolution_backward(Tensor gradient_y, Tensor x, Tensor weights, int stride, int[] padding, bool "
         "of_x) -> (Tensor, Tensor)",
         &depthwise_backward_operator);
}

}  // namespace

bool takes_depthwise(const at::Tensor& x, const at::Tensor& weights, int64_t stride) {
  if (x.is_meta() || !has_kernels(x) || !is_element(x.scalar_type()) || weights.scalar_type() != at::kFloat ||
      !x.is_contiguous(at::MemoryFormat::ChannelsLast) || weights.dim() != 4 || weights.size(0) != x.size(1) ||
      weights.size(1) != 1)
    return false;
  if (!device::takes_loops(x)) return DepthwiseOnDevice::takes(weights, stride);
  return weights.size(2) <= cpu::kMostTaps && weights.size(3) <= cpu::kMostTaps;
}

at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window) {
  static const auto operation = find_operator("depthwise_convolution", &depthwise_operator);
  return operation.call(x, weights, window.stride, window.padding);
}

std::pair<at::Tensor, at::Tensor> depthwise_convolution_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                                 const at::Tensor& weights, const SlidingWindow& window,
                                                                 bool of_x) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("depthwise_convolution_backward", &depthwise_backward_operator);
  auto [gradient_x, of_weights] = operation.call(gradient_y, x, weights, window.stride, window.padding, of_x);
  return {of_x ? gradient_x : at::Tensor(), of_weights};
}

}  // namespace osprey::kernels
