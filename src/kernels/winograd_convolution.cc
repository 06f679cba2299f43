#include "osprey/kernels/winograd_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu/winograd.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "kernels/without_autocast.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr ConvolutionWindow kWindow{{3, 3}, 1, {1, 1}};

/// Whether the loops can do it.
bool fits(const at::Tensor& x, const at::Tensor& weights) {
  return device::takes_loops(x) && cpu::fits_winograd(x, weights.size(0), weights.size(1));
}

at::Tensor winograd_operator(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                             bool transposed) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(2) == 3 && weights.size(3) == 3 &&
                  x.size(1) == weights.size(transposed ? 0 : 1),
              "expected maps [B, I, H, W] and weights [O, I, 3, 3], got ", x.sizes(), " and ", weights.sizes());
  TORCH_CHECK(is_element(x.scalar_type()) && weights.scalar_type() == at::kFloat,
              "expected maps of float32 or half the bits and weights of float32, got ", x.toString(), " and ",
              weights.toString());
  const int64_t columns = weights.size(transposed ? 1 : 0);
  TORCH_CHECK(!biases || (biases->scalar_type() == at::kFloat && biases->sizes() == at::IntArrayRef{columns}),
              "expected ", columns, " biases of float32");
  const at::Tensor result = empty_map({x.size(0), columns, x.size(2), x.size(3)}, x);
  if (x.is_meta() || result.numel() == 0) return result;
  const at::Tensor maps = channels_last(x);
  if (!fits(x, weights)) {
    const WithoutAutocast scope;
    const at::Tensor floats = maps.to(at::kFloat);
    result.copy_(transposed ? at::conv_transpose2d(floats, weights, biases, 1, 1)
                            : at::conv2d(floats, weights, biases, 1, 1));
    return result;
  }
  cpu::convolve_in_tiles(maps, weights, biases ? biases->contiguous() : at::Tensor(), transposed, result);
  return result;
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                    bool transposed) {
  static const auto operation = find_operator("winograd_convolution", &winograd_operator);
  return operation.call(x, weights, biases, transposed);
}

class WinogradNode : public torch::autograd::Function<WinogradNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const std::optional<at::Tensor>& biases, bool transposed) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weights});
    context->saved_data["transposed"] = transposed;
    context->saved_data["biased"] = biases.has_value();
    return convolve(x, weights, biases, transposed);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1], &gradient = gradients[0];
    const bool transposed = context->saved_data["transposed"].toBool();
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = convolve(gradient, weights, {}, !transposed);
    if (context->needs_input_grad(1))
      result[1] = transposed ? convolution_weight_gradient(x, gradient, kWindow)
                             : convolution_weight_gradient(gradient, x, kWindow);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = gradient.sum(at::IntArrayRef{0, 2, 3}, /*keepdim=*/false, at::kFloat);
    return result;
  }
};

at::Tensor differentiable_winograd(const at::Tensor& x, const at::Tensor& weights,
                                   const std::optional<at::Tensor>& biases, bool transposed) {
  return WinogradNode::apply(x, weights, biases, transposed);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "winograd_convolution(Tensor x, Tensor weights, Tensor? biases, bool transposed) -> Tensor",
         &winograd_operator, &differentiable_winograd);
}

}  // namespace

bool takes_winograd(const at::Tensor& x, const at::Tensor& weights) {
  constexpr int64_t kLeastPlaces = 192;  // for the weights to be worth what they take beforehand
  return x.dim() == 4 && x.size(0) * x.size(2) * x.size(3) >= kLeastPlaces && weights.dim() == 4 &&
         weights.size(1) == x.size(1) && weights.size(2) == 3 && weights.size(3) == 3 && is_element(x.scalar_type()) &&
         weights.scalar_type() == at::kFloat && x.is_contiguous(at::MemoryFormat::ChannelsLast) && fits(x, weights);
}

at::Tensor winograd_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  return convolve(x, weights, if_defined(biases), /*transposed=*/false);
}

at::Tensor winograd_convolution_gradient(const at::Tensor& gradient_y, const at::Tensor& weights) {
  return convolve(gradient_y, weights, {}, /*transposed=*/true);
}

}  // namespace osprey::kernels
