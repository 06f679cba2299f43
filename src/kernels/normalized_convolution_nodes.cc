// The node that `normalized_convolution` is in a graph of gradients.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <vector>

#include "kernels/kept_arguments.h"
#include "kernels/no_second_derivative.h"
#include "kernels/window_of.h"
#include "osprey/kernels/normalized_convolution.h"

namespace osprey::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// It keeps, map by map, what it has read, what was pending of that, and what it has made.
class NormalizedConvolutionNode : public torch::autograd::Function<NormalizedConvolutionNode> {
 public:
  static variable_list forward(AutogradContext* context, at::TensorList x, at::TensorList mean,
                               at::TensorList inverse_deviation, at::TensorList gamma, at::TensorList beta,
                               const at::Tensor& weights, const Epilogue& epilogue, const SlidingWindow& window,
                               double epsilon) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto part = [](at::TensorList parts, size_t i) { return parts.empty() ? at::Tensor() : parts[i]; };
    std::vector<PendingMap> inputs;
    for (size_t i = 0; i < x.size(); ++i)
      inputs.push_back({x[i], part(mean, i), part(inverse_deviation, i), part(gamma, i), part(beta, i), epilogue});
    const std::vector<MapWithStatistics> made = normalized_convolution(inputs, weights, window, epsilon);
    variable_list saved = {weights}, results;
    for (size_t i = 0; i < x.size(); ++i)
      saved.insert(saved.end(), {inputs[i].x, inputs[i].mean, inputs[i].inverse_deviation, inputs[i].gamma,
                                 inputs[i].beta, made[i].y, made[i].mean, made[i].inverse_deviation});
    for (const auto own : kParts)
      for (const MapWithStatistics& one : made) results.push_back(one.*own);
    context->save_for_backward(saved);
    keep(context, epilogue);
    keep(context, window);
    context->set_materialize_grads(false);
    return results;
  }

  static variable_list backward(AutogradContext* context, variable_list of_results) {
    refuse_second_derivative("normalized_convolution");
    const variable_list saved = context->get_saved_variables();
    const size_t maps = saved.size() / kSavedOfMap;
    std::vector<PendingMap> inputs;
    std::vector<MapWithStatistics> results, gradients;
    bool of_x = false;
    for (size_t i = 0; i < maps; ++i) {
      const at::Tensor* const own = saved.data() + 1 + kSavedOfMap * i;
      inputs.push_back({own[0], own[1], own[2], own[3], own[4], kept_epilogue(context)});
      results.push_back({own[5], own[6], own[7]});
      gradients.push_back({of_results[i], of_results[maps + i], of_results[2 * maps + i]});
      of_x = of_x || context->needs_input_grad(i);
    }
    const SharedConvolutionGradients all =
        normalized_convolution_backward(gradients, results, inputs, saved[0], kept_window(context), {.of_x = of_x});
    variable_list result;
    const auto add = [&](at::Tensor PendingMap::*part, at::Tensor PendingGradients::*gradient) {
      for (size_t i = 0; i < maps; ++i)
        if ((inputs[i].*part).defined()) result.push_back(all.inputs[i].*gradient);
    };
    add(&PendingMap::x, &PendingGradients::x);
    add(&PendingMap::mean, &PendingGradients::mean);
    add(&PendingMap::inverse_deviation, &PendingGradients::inverse_deviation);
    add(&PendingMap::gamma, &PendingGradients::gamma);
    add(&PendingMap::beta, &PendingGradients::beta);
    result.insert(result.end(), {all.weights, {}, {}, {}});
    return result;
  }

 private:
  static constexpr size_t kSavedOfMap = 8;  ///< tensors, behind the weights
  static constexpr at::Tensor MapWithStatistics::*kParts[] = {&MapWithStatistics::y, &MapWithStatistics::mean,
                                                              &MapWithStatistics::inverse_deviation};
};

std::tuple<variable_list, variable_list, variable_list> differentiable_convolution(
    at::TensorList x, at::TensorList mean, at::TensorList inverse_deviation, at::TensorList gamma, at::TensorList beta,
    double low, double high, int64_t curve, const at::Tensor& weights, int64_t stride, at::IntArrayRef padding,
    double epsilon) {
  const variable_list all =
      NormalizedConvolutionNode::apply(x, mean, inverse_deviation, gamma, beta, weights, epilogue_of(low, high, curve),
                                       window_of(stride, padding), epsilon);
  const auto maps = static_cast<std::ptrdiff_t>(x.size());
  const auto part = [&](std::ptrdiff_t i) {
    return variable_list(all.begin() + i * maps, all.begin() + (i + 1) * maps);
  };
  return {part(0), part(1), part(2)};
}

TORCH_LIBRARY_IMPL(osprey, Autograd, library) { library.impl("normalized_convolution", &differentiable_convolution); }

}  // namespace
}  // namespace osprey::kernels
