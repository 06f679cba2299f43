#include "osprey/kernels/normalized_convolution.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/maps.h"
#include "kernels/normalized_convolution_steps.h"
#include "kernels/operator.h"
#include "kernels/pending_steps.h"
#include "kernels/window_of.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/device.h"

namespace osprey::kernels {
namespace {

using Tensors = std::vector<at::Tensor>;
using ThreeLists = std::tuple<Tensors, Tensors, Tensors>;
using FiveListsAndWeights = std::tuple<Tensors, Tensors, Tensors, Tensors, Tensors, at::Tensor>;

/// Of each map.
std::vector<ConvolutionPlan> plans_of(at::TensorList maps, const at::Tensor& weights, const SlidingWindow& window) {
  std::vector<ConvolutionPlan> result;
  for (const at::Tensor& map : maps) result.emplace_back(map, weights, window);
  return result;
}

/// Makes the maps that are read such as the loops take them, and gives what is pending of each.
std::vector<std::optional<Affine>> prepare(std::vector<PendingMap>& inputs) {
  std::vector<std::optional<Affine>> result;
  for (PendingMap& input : inputs) result.push_back(prepare(input));
  return result;
}

Tensors maps_of(const std::vector<PendingMap>& inputs) {
  Tensors result;
  for (const PendingMap& input : inputs) result.push_back(input.x);
  return result;
}

ThreeLists convolve_operator(at::TensorList given, at::TensorList mean, at::TensorList inverse_deviation,
                             at::TensorList gamma, at::TensorList beta, double low, double high, int64_t curve,
                             const at::Tensor& weights, int64_t stride, at::IntArrayRef padding, double epsilon) {
  const std::vector<ConvolutionPlan> plans = plans_of(given, weights, window_of(stride, padding));
  std::vector<PendingMap> inputs = pending_maps(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  ThreeLists results;
  auto& [ys, means, inverse_deviations] = results;
  if (given[0].is_meta()) {
    for (size_t i = 0; i < given.size(); ++i) {
      ys.push_back(empty_map(plans[i].sizes, given[i]));
      for (Tensors* channels : {&means, &inverse_deviations})
        channels->push_back(at::empty({weights.size(0)}, weights.options()));
    }
    return results;
  }
  const std::vector<std::optional<Affine>> affines = prepare(inputs);
  const std::vector<cpu::Convolved> convolved = convolve(maps_of(inputs), affines, weights, plans);
  for (const cpu::Convolved& one : convolved) {
    const MapWithStatistics made = with_statistics(one, epsilon);
    ys.push_back(made.y);
    means.push_back(made.mean);
    inverse_deviations.push_back(made.inverse_deviation);
  }
  return results;
}

/// What flows to results of convolutions, as operators get it: lists that are empty are of parts that nothing flows to.
struct GradientLists {
  at::TensorList y, mean, inverse_deviation, scale;
};

/// Throws c10::Error where gradients and results are not those of maps with these plans.
void check_results(const std::vector<ConvolutionPlan>& plans, at::TensorList given, const GradientLists& gradients,
                   at::TensorList y, at::TensorList y_mean, at::TensorList y_inverse_deviation) {
  for (const at::TensorList& list : {y, y_mean, y_inverse_deviation})
    TORCH_CHECK(list.size() == given.size(), "expected results of ", given.size(), " maps, got ", list.size());
  for (const at::TensorList& list : {gradients.y, gradients.mean, gradients.inverse_deviation, gradients.scale})
    TORCH_CHECK(list.empty() || list.size() == given.size(), "expected gradients of the results of ", given.size(),
                " maps or of none, got ", list.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const at::Tensor& of_y = gradients.y.empty() ? y[i] : gradients.y[i];
    TORCH_CHECK(y[i].sizes() == at::IntArrayRef(plans[i].sizes) && y[i].scalar_type() == given[i].scalar_type() &&
                    of_y.sizes() == y[i].sizes(),
                "a convolution of ", given[i].toString(), " ", given[i].sizes(), " has no gradient of ",
                y[i].toString(), " ", of_y.sizes());
    for (const at::TensorList& list :
         {gradients.mean, gradients.inverse_deviation, gradients.scale, y_mean, y_inverse_deviation})
      if (!list.empty()) check_channels(y[i], list[i], "statistics of the result, their gradients and a scale");
  }
}

FiveListsAndWeights convolve_backward_operator(at::TensorList gradient_y, at::TensorList gradient_mean,
                                               at::TensorList gradient_inverse_deviation, at::TensorList scale,
                                               at::TensorList y, at::TensorList y_mean,
                                               at::TensorList y_inverse_deviation, at::TensorList given,
                                               at::TensorList mean, at::TensorList inverse_deviation,
                                               at::TensorList gamma, at::TensorList beta, double low, double high,
                                               int64_t curve, const at::Tensor& weights, int64_t stride,
                                               at::IntArrayRef padding, bool of_x) {
  const std::vector<ConvolutionPlan> plans = plans_of(given, weights, window_of(stride, padding));
  std::vector<PendingMap> inputs = pending_maps(given, mean, inverse_deviation, gamma, beta, low, high, curve);
  check_results(plans, given, {gradient_y, gradient_mean, gradient_inverse_deviation, scale}, y, y_mean,
                y_inverse_deviation);
  const bool pending = !mean.empty();
  of_x = of_x || pending;
  FiveListsAndWeights results;
  auto& [of_maps, of_means, of_inverse_deviations, of_gammas, of_betas, of_weights] = results;
  if (given[0].is_meta()) {
    for (const at::Tensor& map : given) {
      if (of_x) of_maps.push_back(empty_map(map.sizes(), map));
      for (Tensors* channels : {&of_means, &of_inverse_deviations, &of_gammas, &of_betas})
        if (pending) channels->push_back(at::empty({map.size(1)}, weights.options()));
    }
    of_weights = empty_map(weights.sizes(), weights);
    return results;
  }
  const std::vector<std::optional<Affine>> affines = prepare(inputs);
  std::vector<cpu::ThroughStatistics> through;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto part = [i](at::TensorList parts) { return parts.empty() ? at::Tensor() : parts[i]; };
    through.push_back(through_statistics({part(gradient_y), part(gradient_mean), part(gradient_inverse_deviation)},
                                         {y[i], y_mean[i], y_inverse_deviation[i]}, part(scale)));
  }
  const cpu::SharedGradients gradients = convolve_backward(through, maps_of(inputs), affines, weights, plans, of_x);
  of_weights = as_parameter(gradients.weights);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (of_x) of_maps.push_back(gradients.maps[i].x);
    if (!pending) continue;
    const ChannelGradients channels =
        gradients_of_channels(inputs[i].x, gradients.maps[i].moments, *affines[i], inverse_deviation[i]);
    of_means.push_back(channels.mean);
    of_inverse_deviations.push_back(channels.inverse_deviation);
    of_gammas.push_back(channels.gamma);
    of_betas.push_back(channels.beta);
  }
  return results;
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "normalized_convolution(Tensor[] x, Tensor[] mean, Tensor[] inverse_deviation, Tensor[] gamma, Tensor[] beta, "
         "float low, float high, int curve, Tensor weights, int stride, int[] padding, float epsilon) -> (Tensor[], "
         "Tensor[], Tensor[])",
         &convolve_operator);
  define(library,
         "normalized_convolution_backward(Tensor[] gradient_y, Tensor[] gradient_mean, Tensor[] "
         "gradient_inverse_deviation, Tensor[] scale, Tensor[] y, Tensor[] y_mean, Tensor[] y_inverse_deviation, "
         "Tensor[] x, Tensor[] mean, Tensor[] inverse_deviation, Tensor[] gamma, Tensor[] beta, float low, float high, "
         "int curve, Tensor weights, int stride, int[] padding, bool of_x) -> (Tensor[], Tensor[], Tensor[], Tensor[], "
         "Tensor[], Tensor)",
         &convolve_backward_operator);
}

/// A part of each, as a list: empty where none has it.
/// otherwise  where only some have it, those that have not get zeros like this part of these
template <class Whole>
Tensors list(const std::vector<Whole>& all, at::Tensor Whole::*part, const std::vector<Whole>& otherwise) {
  if (std::ranges::none_of(all, [&](const Whole& one) { return (one.*part).defined(); })) return {};
  Tensors result;
  for (size_t i = 0; i < all.size(); ++i)
    result.push_back((all[i].*part).defined() ? all[i].*part : at::zeros_like(otherwise.at(i).*part));
  return result;
}

/// The parts of some maps as lists.
struct Parts {
  explicit Parts(const std::vector<PendingMap>& maps)
      : x(of(maps, &PendingMap::x)),
        mean(of(maps, &PendingMap::mean)),
        inverse_deviation(of(maps, &PendingMap::inverse_deviation)),
        gamma(of(maps, &PendingMap::gamma)),
        beta(of(maps, &PendingMap::beta)),
        epilogue(maps.empty() ? Epilogue{} : maps[0].epilogue) {
    TORCH_CHECK(std::ranges::all_of(maps, [&](const PendingMap& map) { return map.epilogue == epilogue; }),
                "expected maps with one epilogue");
  }
  Tensors x, mean, inverse_deviation, gamma, beta;
  Epilogue epilogue;

 private:
  static Tensors of(const std::vector<PendingMap>& maps, at::Tensor PendingMap::*part) {
    const auto has = [&](const PendingMap& map) { return (map.*part).defined(); };
    TORCH_CHECK(std::ranges::all_of(maps, has) || std::ranges::none_of(maps, has),
                "expected maps that all have the same parts");
    return list(maps, part, maps);
  }
};

}  // namespace

bool takes_normalized_convolution(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window) {
  if (x.dim() != 4 || weights.dim() != 4 || x.numel() == 0 || !device::takes_loops(x) || !is_element(x.scalar_type()) ||
      weights.scalar_type() != at::kFloat || !x.is_contiguous(at::MemoryFormat::ChannelsLast))
    return false;
  if (is_depthwise(x, weights)) return std::max(weights.size(2), weights.size(3)) <= cpu::kMostTaps;
  const bool one_by_one = weights.size(2) == 1 && weights.size(3) == 1 && window.stride == 1;
  return weights.size(1) == x.size(1) && (one_by_one || takes_windows(x, weights, window));
}

std::vector<MapWithStatistics> normalized_convolution(const std::vector<PendingMap>& inputs, const at::Tensor& weights,
                                                      const SlidingWindow& window, double epsilon) {
  static const auto operation = find_operator("normalized_convolution", &convolve_operator);
  const Parts parts(inputs);
  const auto [y, mean, inverse_deviation] = operation.call(
      parts.x, parts.mean, parts.inverse_deviation, parts.gamma, parts.beta, parts.epilogue.low, parts.epilogue.high,
      static_cast<int64_t>(parts.epilogue.curve), weights, window.stride, window.padding, epsilon);
  std::vector<MapWithStatistics> results;
  for (size_t i = 0; i < y.size(); ++i) results.push_back({y[i], mean[i], inverse_deviation[i]});
  return results;
}

MapWithStatistics normalized_convolution(const PendingMap& input, const at::Tensor& weights,
                                         const SlidingWindow& window, double epsilon) {
  return normalized_convolution(std::vector{input}, weights, window, epsilon).front();
}

SharedConvolutionGradients normalized_convolution_backward(const std::vector<MapWithStatistics>& gradients,
                                                           const std::vector<MapWithStatistics>& results,
                                                           const std::vector<PendingMap>& inputs,
                                                           const at::Tensor& weights, const SlidingWindow& window,
                                                           const ConvolutionGradientOptions& options) {
  const at::NoGradGuard no_gradients;
  static const auto operation = find_operator("normalized_convolution_backward", &convolve_backward_operator);
  const Parts parts(inputs);
  const auto of = [&](at::Tensor MapWithStatistics::*part) { return list(results, part, results); };
  const auto gradient_of = [&](at::Tensor MapWithStatistics::*part) { return list(gradients, part, results); };
  const auto [x, mean, inverse_deviation, gamma, beta, of_weights] = operation.call(
      gradient_of(&MapWithStatistics::y), gradient_of(&MapWithStatistics::mean),
      gradient_of(&MapWithStatistics::inverse_deviation), options.scale.defined() ? Tensors{options.scale} : Tensors(),
      of(&MapWithStatistics::y), of(&MapWithStatistics::mean), of(&MapWithStatistics::inverse_deviation), parts.x,
      parts.mean, parts.inverse_deviation, parts.gamma, parts.beta, parts.epilogue.low, parts.epilogue.high,
      static_cast<int64_t>(parts.epilogue.curve), weights, window.stride, window.padding, options.of_x);
  SharedConvolutionGradients all{std::vector<PendingGradients>(inputs.size()), of_weights};
  for (size_t i = 0; i < inputs.size(); ++i) {
    PendingGradients& own = all.inputs[i];
    if (!x.empty()) own.x = x[i];
    if (!mean.empty())
      std::tie(own.mean, own.inverse_deviation, own.gamma, own.beta) =
          std::tie(mean[i], inverse_deviation[i], gamma[i], beta[i]);
  }
  return all;
}

NormalizedConvolutionGradients normalized_convolution_backward(const MapWithStatistics& gradient,
                                                               const MapWithStatistics& result, const PendingMap& input,
                                                               const at::Tensor& weights, const SlidingWindow& window,
                                                               const ConvolutionGradientOptions& options) {
  const SharedConvolutionGradients all = normalized_convolution_backward(std::vector{gradient}, std::vector{result},
                                                                         std::vector{input}, weights, window, options);
  return {all.inputs.front(), all.weights};
}

}  // namespace osprey::kernels
