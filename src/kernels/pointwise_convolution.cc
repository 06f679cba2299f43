#include "osprey/kernels/pointwise_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/cpu/place_products.h"
#include "kernels/maps.h"
#include "kernels/operator.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

at::Tensor pointwise_operator(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                              bool transposed) {
  TORCH_CHECK(x.dim() == 4 && weights.dim() == 4 && weights.size(2) == 1 && weights.size(3) == 1 &&
                  x.size(1) == weights.size(transposed ? 0 : 1),
              "expected maps [B, I, H, W] and weights [O, I, 1, 1], got ", x.sizes(), " and ", weights.sizes());
  TORCH_CHECK(x.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat, "expected float32");
  const int64_t depth = x.size(1), columns = weights.size(transposed ? 1 : 0);
  TORCH_CHECK(!biases || (biases->scalar_type() == at::kFloat && biases->sizes() == at::IntArrayRef{columns}),
              "expected ", columns, " biases of float32");
  at::Tensor result = empty_map({x.size(0), columns, x.size(2), x.size(3)}, x);
  if (x.is_meta() || columns == 0) return result;
  const int64_t places = x.size(0) * x.size(2) * x.size(3);
  const at::Tensor maps = channels_last(x);
  if (!device::takes_loops(x) || places < cpu::kLeastPlaces) {
    const at::Tensor matrix = weights.flatten(1);
    at::Tensor rows = result.permute({0, 2, 3, 1}).view({places, columns});
    at::mm_out(rows, maps.permute({0, 2, 3, 1}).reshape({places, depth}), transposed ? matrix : matrix.t());
    if (biases) rows.add_(*biases);
    return result;
  }
  const cpu::PlaceProducts products(weights, biases.value_or(at::Tensor()), transposed);
  const auto* const in = maps.const_data_ptr<float>();
  auto* const out = result.mutable_data_ptr<float>();
  cpu::PlaceTasks(places, std::max(depth, columns)).for_each([&](int64_t, int64_t begin, int64_t end) {
    products.multiply(in + begin * depth, end - begin, {in + end * depth, (end - begin) * depth},
                      out + begin * columns);
  });
  return result;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "pointwise_convolution(Tensor x, Tensor weights, Tensor? biases, bool transposed) -> Tensor",
         &pointwise_operator);
}

at::Tensor multiply_places(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases, bool transposed) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("pointwise_convolution", &pointwise_operator);
  return operation.call(x, weights, if_defined(biases), transposed);
}

}  // namespace

bool takes_pointwise(const at::Tensor& x, const at::Tensor& weights) {
  return device::takes_loops(x) && x.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat &&
         x.is_contiguous(at::MemoryFormat::ChannelsLast) && weights.dim() == 4 && weights.size(1) == x.size(1) &&
         weights.size(2) == 1 && weights.size(3) == 1;
}

at::Tensor pointwise_convolution(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
  return multiply_places(x, weights, biases, /*transposed=*/false);
}

at::Tensor pointwise_convolution_gradient(const at::Tensor& gradient_y, const at::Tensor& weights) {
  return multiply_places(gradient_y, weights, {}, /*transposed=*/true);
}

}  // namespace osprey::kernels
