#include "osprey/kernels/pointwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/cpu/place_products.h"
#include "kernels/cpu/place_tasks.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "kernels/without_autocast.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
void multiply_all(cpu::Arithmetic arithmetic, const T* maps, int64_t places, const cpu::PlaceProducts& products,
                  T* result) {
  const int64_t depth = products.depth(), columns = products.columns();
  const cpu::PlaceTasks tasks(arithmetic, places, std::max(depth, columns));
  tasks.for_each([&](int64_t, int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    products.multiply(maps + begin * depth, count, cpu::Ahead::of(maps + end * depth, count * depth),
                      result + begin * columns);
  });
}

at::Tensor pointwise_operator(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                              bool transposed) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(2) == 1 && weights.size(3) == 1 &&
                  x.size(1) == weights.size(transposed ? 0 : 1),
              "expected maps [B, I, H, W] and weights [O, I, 1, 1], got ", x.sizes(), " and ", weights.sizes());
  TORCH_CHECK(is_element(x.scalar_type()) && weights.scalar_type() == at::kFloat,
              "expected maps of float32 or half the bits and weights of float32, got ", x.toString(), " and ",
              weights.toString());
  const int64_t depth = x.size(1), columns = weights.size(transposed ? 1 : 0);
  TORCH_CHECK(!biases || (biases->scalar_type() == at::kFloat && biases->sizes() == at::IntArrayRef{columns}),
              "expected ", columns, " biases of float32");
  at::Tensor result = empty_map({x.size(0), columns, x.size(2), x.size(3)}, x);
  if (x.is_meta() || columns == 0) return result;
  const int64_t places = x.size(0) * x.size(2) * x.size(3);
  const at::Tensor maps = channels_last(x);
  if (!device::takes_loops(x) || places < cpu::kLeastPlaces || depth == 0) {
    const WithoutAutocast scope;
    const at::Tensor matrix = weights.flatten(1);
    at::Tensor rows =
        at::mm(maps.permute({0, 2, 3, 1}).reshape({places, depth}).to(at::kFloat), transposed ? matrix : matrix.t());
    if (biases) rows.add_(*biases);
    result.permute({0, 2, 3, 1}).view({places, columns}).copy_(rows);
    return result;
  }
  const cpu::Arithmetic arithmetic = cpu::arithmetic_for(x.scalar_type());
  const cpu::PlaceProducts products(weights, biases.value_or(at::Tensor()), transposed, arithmetic);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    multiply_all(arithmetic, device::data<const T>(maps), places, products, device::data<T>(result));
  });
  return result;
}

at::Tensor multiply_places(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                           bool transposed) {
  static const auto operation = find_operator("pointwise_convolution", &pointwise_operator);
  return operation.call(x, weights, biases, transposed);
}

class PointwiseNode : public torch::autograd::Function<PointwiseNode> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weights,
                            const std::optional<at::Tensor>& biases, bool transposed) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({x, weights});
    context->saved_data["transposed"] = transposed;
    context->saved_data["biased"] = biases.has_value();
    return multiply_places(x, weights, biases, transposed);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    refuse_second_derivative("pointwise_convolution");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weights = saved[1], gradient = channels_last(gradients[0]);
    const bool transposed = context->saved_data["transposed"].toBool();
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = multiply_places(gradient, weights, {}, !transposed);
    if (context->needs_input_grad(1))
      result[1] =
          transposed ? convolution_weight_gradient(x, gradient, {}) : convolution_weight_gradient(gradient, x, {});
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(2))
      result[2] = convolution_bias_gradient(gradient);
    return result;
  }
};

at::Tensor differentiable_pointwise(const at::Tensor& x, const at::Tensor& weights,
                                    const std::optional<at::Tensor>& biases, bool transposed) {
  return PointwiseNode::apply(x, weights, biases, transposed);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "pointwise_convolution(Tensor x, Tensor weights, Tensor? biases, bool transposed) -> Tensor",
         &pointwise_operator, &differentiable_pointwise);
}

}  // namespace

bool takes_pointwise(const at::Tensor& x, const at::Tensor& weights) {
  return device::takes_loops(x) && is_element(x.scalar_type()) && weights.scalar_type() == at::kFloat &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && weights.dim() == 4 && weights.size(1) == x.size(1) &&
         weights.size(2) == 1 && weights.size(3) == 1;
}

at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  return multiply_places(x, weights, if_defined(biases), /*transposed=*/false);
}

at::Tensor pointwise_convolution_gradient(const at::Tensor& gradient_y, const at::Tensor& weights) {
  return multiply_places(gradient_y, weights, {}, /*transposed=*/true);
}

}  // namespace osprey::kernels
