#include "osprey/kernels/winograd_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

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
bool fits(at::TensorList maps, const at::Tensor& weights) {
  return device::takes_loops(maps[0]) && cpu::fits_winograd(maps, weights.size(0), weights.size(1));
}

/// Whether tiles are the faster way for maps on a CPU.
bool suits(at::TensorList maps, const at::Tensor& weights) {
  constexpr int64_t kLeastPlaces = 192;  // for the weights to be worth what they take
  if (weights.dim() != 4 || weights.size(2) != 3 || weights.size(3) != 3 || weights.scalar_type() != at::kFloat)
    return false;
  int64_t places = 0;
  for (const at::Tensor& map : maps) {
    if (map.dim() != 4 || map.size(1) != weights.size(1) || !is_element(map.scalar_type()) ||
        map.scalar_type() != maps[0].scalar_type() || !map.is_contiguous(at::MemoryFormat::ChannelsLast))
      return false;
    places += map.size(0) * map.size(2) * map.size(3);
  }
  return places >= kLeastPlaces && cpu::fits_winograd(maps, weights.size(0), weights.size(1));
}

void check(at::TensorList maps, const at::Tensor& weights, const std::optional<at::Tensor>& biases, bool transposed) {
  TORCH_CHECK(!maps.empty(), "expected maps, got none");
  for (const at::Tensor& map : maps) {
    TORCH_CHECK(map.dim() == 4 && weights.dim() == 4 && weights.size(2) == 3 && weights.size(3) == 3 &&
                    map.size(1) == weights.size(transposed ? 0 : 1),
                "expected maps [B, I, H, W] and weights [O, I, 3, 3], got ", map.sizes(), " and ", weights.sizes());
    TORCH_CHECK(is_element(map.scalar_type()) && weights.scalar_type() == at::kFloat,
                "expected maps of float32 or half the bits and weights of float32, got ", map.toString(), " and ",
                weights.toString());
    TORCH_CHECK(map.scalar_type() == maps[0].scalar_type() && map.device() == maps[0].device(),
                "expected maps of one kind, got ", maps[0].toString(), " and ", map.toString());
  }
  const int64_t columns = weights.size(transposed ? 1 : 0);
  TORCH_CHECK(!biases || (biases->scalar_type() == at::kFloat && biases->sizes() == at::IntArrayRef{columns}),
              "expected ", columns, " biases of float32");
}

std::vector<at::Tensor> winograd_operator(at::TensorList maps, const at::Tensor& weights,
                                          const std::optional<at::Tensor>& biases, bool transposed) {
  check(maps, weights, biases, transposed);
  std::vector<at::Tensor> own, results;
  for (const at::Tensor& map : maps) {
    own.push_back(channels_last(map));
    results.push_back(empty_map({map.size(0), weights.size(transposed ? 1 : 0), map.size(2), map.size(3)}, map));
  }
  const auto is_empty = [](const at::Tensor& map) { return map.numel() == 0; };
  if (maps[0].is_meta() || std::ranges::all_of(results, is_empty)) return results;
  if (fits(own, weights)) {
    cpu::convolve_in_tiles(own, weights, biases ? biases->contiguous() : at::Tensor(), transposed, results);
    return results;
  }
  const WithoutAutocast scope;
  for (size_t i = 0; i < own.size(); ++i) {
    const at::Tensor floats = own[i].to(at::kFloat);
    results[i].copy_(transposed ? at::conv_transpose2d(floats, weights, biases, 1, 1)
                                : at::conv2d(floats, weights, biases, 1, 1));
  }
  return results;
}

std::vector<at::Tensor> convolve(at::TensorList maps, const at::Tensor& weights,
                                 const std::optional<at::Tensor>& biases, bool transposed) {
  static const auto operation = find_operator("winograd_convolution", &winograd_operator);
  return operation.call(maps, weights, biases, transposed);
}

at::Tensor packed_operator(const at::Tensor& given, const at::Tensor& packed, const at::Tensor& biases, double low,
                           double high) {
  TORCH_CHECK(given.dim() == 4 && is_element(given.scalar_type()), "expected a map [B, I, H, W], got ",
              given.toString(), " ", given.sizes());
  TORCH_CHECK(biases.dim() == 1 && biases.scalar_type() == at::kFloat && packed.scalar_type() == at::kFloat,
              "expected packed weights and a bias for each channel, float32");
  TORCH_CHECK(packed.sizes() == at::IntArrayRef{cpu::packed_size(given, biases.size(0))},
              "expected weights packed for a map of ", given.sizes(), " and ", biases.size(0),
              " channels of the result, got ", packed.sizes());
  const at::Tensor map = channels_last(given),
                   result = empty_map({map.size(0), biases.size(0), map.size(2), map.size(3)}, map);
  if (map.is_meta() || result.numel() == 0) return result;
  cpu::convolve_by_packed(map, packed.contiguous(), biases.contiguous(),
                          {static_cast<float>(low), static_cast<float>(high)}, result);
  return result;
}

class WinogradNode : public torch::autograd::Function<WinogradNode> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList maps, const at::Tensor& weights,
                               const std::optional<at::Tensor>& biases, bool transposed) {
    const at::AutoDispatchBelowADInplaceOrView below;
    variable_list saved = maps.vec();
    saved.push_back(weights);
    context->save_for_backward(saved);
    context->saved_data["transposed"] = transposed;
    context->saved_data["biased"] = biases.has_value();
    return convolve(maps, weights, biases, transposed);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list maps = context->get_saved_variables();
    const at::Tensor weights = maps.back();
    maps.pop_back();
    const size_t count = maps.size();
    const bool transposed = context->saved_data["transposed"].toBool();
    variable_list result(count + 3);
    bool wants_maps = false;
    for (size_t i = 0; i < count; ++i) wants_maps = wants_maps || context->needs_input_grad(i);
    if (wants_maps) std::ranges::copy(convolve(gradients, weights, {}, !transposed), result.begin());
    if (context->needs_input_grad(count))
      result[count] = transposed ? convolution_weight_gradient(maps, gradients, kWindow)
                                 : convolution_weight_gradient(gradients, maps, kWindow);
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(count + 1))
      for (const at::Tensor& gradient : gradients) {
        const at::Tensor sums = gradient.sum(at::IntArrayRef{0, 2, 3}, /*keepdim=*/false, at::kFloat);
        at::Tensor& total = result[count + 1];
        total = total.defined() ? total + sums : sums;
      }
    return result;
  }
};

std::vector<at::Tensor> differentiable_winograd(at::TensorList maps, const at::Tensor& weights,
                                                const std::optional<at::Tensor>& biases, bool transposed) {
  return WinogradNode::apply(maps, weights, biases, transposed);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "winograd_convolution(Tensor[] maps, Tensor weights, Tensor? biases, bool transposed) -> Tensor[]",
         &winograd_operator, &differentiable_winograd);
  define_for_cpus(
      library, "packed_winograd_convolution(Tensor map, Tensor packed, Tensor biases, float low, float high) -> Tensor",
      &packed_operator);
}

}  // namespace

bool takes_winograd(at::TensorList maps, const at::Tensor& weights) {
  return device::takes_loops(maps[0]) && suits(maps, weights);
}

std::vector<at::Tensor> winograd_convolution(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases) {
  return convolve(maps, weights, if_defined(biases), /*transposed=*/false);
}

std::vector<at::Tensor> winograd_convolution_gradient(at::TensorList gradients, const at::Tensor& weights) {
  return convolve(gradients, weights, {}, /*transposed=*/true);
}

at::Tensor packed_for_winograd(const at::Tensor& map, const at::Tensor& weights) {
  check(map, weights, {}, /*transposed=*/false);
  TORCH_CHECK(map.is_cpu(), "weights are packed for CPUs, not for ", map.device());
  return suits(map, weights) ? cpu::pack_for_tiles(map, weights) : at::empty({0}, weights.options());
}

at::Tensor packed_winograd_convolution(const at::Tensor& map, const at::Tensor& packed, const at::Tensor& biases,
                                       const Epilogue& limits) {
  TORCH_CHECK(limits.curve == Epilogue::Curve::kClamp, "results are clamped or nothing");
  static const auto operation = find_operator("packed_winograd_convolution", &packed_operator);
  return operation.call(map, packed, biases, limits.low, limits.high);
}

}  // namespace osprey::kernels
