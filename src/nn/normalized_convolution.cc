#include "nn/normalized_convolution.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/if_defined.h"

namespace osprey::nn {
namespace {

using kernels::if_defined;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Optional = std::optional<at::Tensor>;

/// What of a pending map is no tensor.
void keep(AutogradContext* context, const kernels::Epilogue& epilogue) {
  context->saved_data["range"] = std::vector<double>{epilogue.low, epilogue.high};
  context->saved_data["curve"] = static_cast<int64_t>(epilogue.curve);
}
kernels::Epilogue kept_epilogue(AutogradContext* context) {
  const auto range = context->saved_data["range"].toDoubleVector();
  return {static_cast<float>(range[0]), static_cast<float>(range[1]),
          static_cast<kernels::Epilogue::Curve>(context->saved_data["curve"].toInt())};
}

class NormalizedConvolution : public torch::autograd::Function<NormalizedConvolution> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x, const Optional& mean,
                               const Optional& inverse_deviation, const Optional& gamma, const Optional& beta,
                               const at::Tensor& weights, const kernels::Epilogue& epilogue,
                               const kernels::SlidingWindow& window, double epsilon) {
    const auto or_none = [](const Optional& tensor) { return tensor.value_or(at::Tensor()); };
    const kernels::PendingMap input{x,       or_none(mean), or_none(inverse_deviation), or_none(gamma), or_none(beta),
                                    epilogue};
    const auto result = kernels::normalized_convolution(input, weights, window, epsilon);
    context->save_for_backward({x, input.mean, input.inverse_deviation, input.gamma, input.beta, weights, result.y,
                                result.mean, result.inverse_deviation});
    keep(context, epilogue);
    context->saved_data["stride"] = window.stride;
    context->saved_data["padding"] = std::vector<int64_t>(window.padding.begin(), window.padding.end());
    context->set_materialize_grads(false);
    return {result.y, result.mean, result.inverse_deviation};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    kernels::SlidingWindow window{context->saved_data["stride"].toInt(), {}};
    const auto padding = context->saved_data["padding"].toIntVector();
    std::copy(padding.begin(), padding.end(), window.padding.begin());
    const auto all = kernels::normalized_convolution_backward(
        {gradients[0], gradients[1], gradients[2]}, {saved[6], saved[7], saved[8]},
        {saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)}, saved[5], window,
        context->needs_input_grad(0));
    return {all.x,
            all.mean,
            all.inverse_deviation,
            saved[3].defined() ? all.gamma : at::Tensor(),
            saved[4].defined() ? all.beta : at::Tensor(),
            all.weights,
            {},
            {},
            {}};
  }
};

class PendingValues : public torch::autograd::Function<PendingValues> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& mean,
                            const at::Tensor& inverse_deviation, const Optional& gamma, const Optional& beta,
                            const kernels::Epilogue& epilogue) {
    const kernels::PendingMap map{
        x, mean, inverse_deviation, gamma.value_or(at::Tensor()), beta.value_or(at::Tensor()), epilogue};
    context->save_for_backward({x, mean, inverse_deviation, map.gamma, map.beta});
    keep(context, epilogue);
    return kernels::pending_values(map);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto all = kernels::pending_values_backward(
        gradients[0], {saved[0], saved[1], saved[2], saved[3], saved[4], kept_epilogue(context)});
    return {all.x,
            all.mean,
            all.inverse_deviation,
            saved[3].defined() ? all.gamma : at::Tensor(),
            saved[4].defined() ? all.beta : at::Tensor(),
            {}};
  }
};

}  // namespace

kernels::MapWithStatistics normalized_operation(const kernels::PendingMap& input, const at::Tensor& weights,
                                                const kernels::SlidingWindow& window, double epsilon) {
  const variable_list result = NormalizedConvolution::apply(
      input.x, if_defined(input.mean), if_defined(input.inverse_deviation), if_defined(input.gamma),
      if_defined(input.beta), weights, input.epilogue, window, epsilon);
  return {result[0], result[1], result[2]};
}

at::Tensor FeatureMap::values() const {
  if (!is_pending()) return map_.x;
  return PendingValues::apply(map_.x, map_.mean, map_.inverse_deviation, if_defined(map_.gamma), if_defined(map_.beta),
                              map_.epilogue);
}

}  // namespace osprey::nn
