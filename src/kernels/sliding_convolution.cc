#include "osprey/kernels/sliding_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>

#include "kernels/cpu/sides.h"
#include "kernels/cpu/sliding_convolution.h"
#include "kernels/cpu/winograd.h"
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

/// Zeros on every side that keep the size of the map.
std::array<int64_t, 2> padding_of(const at::Tensor& weights) { return {weights.size(2) / 2, weights.size(3) / 2}; }

ConvolutionWindow window_of(const at::Tensor& weights) {
  return {{weights.size(2), weights.size(3)}, 1, padding_of(weights)};
}

enum class Way { kByAmx, kInTiles, kByLibtorch };

/// How the loops do it, if they can.
Way way_of(at::TensorList maps, const at::Tensor& weights) {
  const int64_t O = weights.size(0), I = weights.size(1);
  if (!device::takes_loops(maps[0])) return Way::kByLibtorch;
  if (cpu::slides_by_amx(maps[0].scalar_type(), O, I)) return Way::kByAmx;
  const bool three_by_three = weights.size(2) == 3 && weights.size(3) == 3;
  return three_by_three && cpu::fits_winograd(maps, O, I) ? Way::kInTiles : Way::kByLibtorch;
}

bool has_odd_sides(const at::Tensor& weights) {
  const auto fits = [](int64_t side) { return side % 2 == 1 && side <= cpu::kMostTaps; };
  return weights.dim() == 4 && fits(weights.size(2)) && fits(weights.size(3));
}

/// Whether these maps and weights belong together, and are enough for the weights to be worth what they take.
bool suits(at::TensorList maps, const at::Tensor& weights) {
  if (!has_odd_sides(weights) || weights.size(2) * weights.size(3) == 1 || weights.scalar_type() != at::kFloat)
    return false;
  int64_t places = 0;
  for (const at::Tensor& map : maps) {
    if (map.dim() != 4 || map.size(1) != weights.size(1) || !is_element(map.scalar_type()) ||
        map.scalar_type() != maps[0].scalar_type() || !map.is_contiguous(at::MemoryFormat::ChannelsLast))
      return false;
    places += map.size(0) * map.size(2) * map.size(3);
  }
  return places >= cpu::kLeastSlidingPlaces;
}

void check(at::TensorList maps, const at::Tensor& weights, const std::optional<at::Tensor>& biases, bool transposed) {
  TORCH_CHECK(!maps.empty(), "expected maps, got none");
  for (const at::Tensor& map : maps) {
    TORCH_CHECK(map.dim() == 4 && has_odd_sides(weights) && map.size(1) == weights.size(transposed ? 0 : 1),
                "expected maps [B, I, H, W] and weights [O, I, height, width] of odd sides up to ", cpu::kMostTaps,
                ", got ", map.sizes(), " and ", weights.sizes());
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

std::vector<at::Tensor> sliding_operator(at::TensorList maps, const at::Tensor& weights,
                                         const std::optional<at::Tensor>& biases, bool transposed) {
  check(maps, weights, biases, transposed);
  std::vector<at::Tensor> own, results;
  for (const at::Tensor& map : maps) {
    own.push_back(channels_last(map));
    results.push_back(empty_map({map.size(0), weights.size(transposed ? 1 : 0), map.size(2), map.size(3)}, map));
  }
  const auto is_empty = [](const at::Tensor& map) { return map.numel() == 0; };
  if (maps[0].is_meta() || std::ranges::all_of(results, is_empty)) return results;
  const at::Tensor bias = biases ? biases->contiguous() : at::Tensor();
  const Way way = way_of(own, weights);
  if (way == Way::kByAmx) {
    cpu::slide_over(own, weights, bias, transposed, results);
  } else if (way == Way::kInTiles) {
    cpu::convolve_in_tiles(own, weights, bias, transposed, results);
  } else {
    const WithoutAutocast scope;
    for (size_t i = 0; i < own.size(); ++i) {
      const at::Tensor floats = own[i].to(at::kFloat);
      results[i].copy_(transposed ? at::conv_transpose2d(floats, weights, biases, 1, padding_of(weights))
                                  : at::conv2d(floats, weights, biases, 1, padding_of(weights)));
    }
  }
  return results;
}

std::vector<at::Tensor> convolve(at::TensorList maps, const at::Tensor& weights,
                                 const std::optional<at::Tensor>& biases, bool transposed) {
  static const auto operation = find_operator("sliding_convolution", &sliding_operator);
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
  const int64_t results = given.size(0) * given.size(2) * given.size(3) * biases.size(0);
  TORCH_CHECK(results == 0 || cpu::fits_winograd(given, biases.size(0), given.size(1)), "no weights are packed for ",
              given.sizes(), " and ", biases.size(0), " channels of the result: too few places or channels");
  const at::Tensor map = channels_last(given),
                   result = empty_map({map.size(0), biases.size(0), map.size(2), map.size(3)}, map);
  if (map.is_meta() || result.numel() == 0) return result;
  cpu::convolve_by_packed(map, packed.contiguous(), biases.contiguous(),
                          {static_cast<float>(low), static_cast<float>(high)}, result);
  return result;
}

class SlidingNode : public torch::autograd::Function<SlidingNode> {
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
    refuse_second_derivative("sliding_convolution");
    variable_list maps = context->get_saved_variables();
    const at::Tensor weights = maps.back();
    maps.pop_back();
    const size_t count = maps.size();
    const bool transposed = context->saved_data["transposed"].toBool();
    variable_list result(count + 3);
    for (at::Tensor& gradient : gradients) gradient = channels_last(gradient);
    bool wants_maps = false;
    for (size_t i = 0; i < count; ++i) wants_maps = wants_maps || context->needs_input_grad(i);
    if (wants_maps) std::ranges::copy(convolve(gradients, weights, {}, !transposed), result.begin());
    if (context->needs_input_grad(count))
      result[count] = transposed ? convolution_weight_gradient(maps, gradients, window_of(weights))
                                 : convolution_weight_gradient(gradients, maps, window_of(weights));
    if (context->saved_data["biased"].toBool() && context->needs_input_grad(count + 1))
      result[count + 1] = convolution_bias_gradient(gradients);
    return result;
  }
};

std::vector<at::Tensor> differentiable_sliding(at::TensorList maps, const at::Tensor& weights,
                                               const std::optional<at::Tensor>& biases, bool transposed) {
  return SlidingNode::apply(maps, weights, biases, transposed);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "sliding_convolution(Tensor[] maps, Tensor weights, Tensor? biases, bool transposed) -> Tensor[]",
         &sliding_operator, &differentiable_sliding);
  define_for_cpus(
      library, "packed_winograd_convolution(Tensor map, Tensor packed, Tensor biases, float low, float high) -> Tensor",
      &packed_operator);
}

}  // namespace

bool takes_sliding(at::TensorList maps, const at::Tensor& weights) {
  return suits(maps, weights) && way_of(maps, weights) != Way::kByLibtorch;
}

std::vector<at::Tensor> sliding_convolution(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases) {
  return convolve(maps, weights, if_defined(biases), /*transposed=*/false);
}

std::vector<at::Tensor> sliding_convolution_gradient(at::TensorList gradients, const at::Tensor& weights) {
  return convolve(gradients, weights, {}, /*transposed=*/true);
}

at::Tensor packed_for_winograd(const at::Tensor& map, const at::Tensor& weights) {
  check(map, weights, {}, /*transposed=*/false);
  TORCH_CHECK(map.is_cpu(), "weights are packed for CPUs, not for ", map.device());
  const bool three_by_three = weights.size(2) == 3 && weights.size(3) == 3;
  return three_by_three && suits(map, weights) && cpu::fits_winograd(map, weights.size(0), weights.size(1))
             ? cpu::pack_for_tiles(map, weights)
             : at::empty({0}, weights.options());
}

at::Tensor packed_winograd_convolution(const at::Tensor& map, const at::Tensor& packed, const at::Tensor& biases,
                                       const Epilogue& limits) {
  TORCH_CHECK(limits.curve == Epilogue::Curve::kClamp, "results are clamped or nothing");
  static const auto operation = find_operator("packed_winograd_convolution", &packed_operator);
  return operation.call(map, packed, biases, limits.low, limits.high);
}

}  // namespace osprey::kernels
