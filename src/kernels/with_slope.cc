#include "kernels/with_slope.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/device/class_loss.h"
#include "kernels/device/launch.h"
#include "kernels/no_second_derivative.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// On a CPU, some rows of `K` numbers at a time.
template <class Slope, class T>
void scale_rows(const Slope* slopes, const float* factors, int64_t rows, int64_t K, T* gradients) {
  constexpr int64_t kNumbersAtATime = 16384;
  const int64_t at_a_time = std::max<int64_t>(1, kNumbersAtATime / std::max<int64_t>(1, K));
  parallel_for((rows + at_a_time - 1) / at_a_time, [&](int64_t block) {
    const int64_t first = block * at_a_time, count = std::min(at_a_time, rows - first);
    const auto space = cpu::scratch(std::is_same_v<Slope, float> ? 0 : count * K);
    const cpu::Drafts<T> drafts(count * K);
    const float* from = cpu::floats_of(slopes + first * K, count * K, space.get());
    float* to = drafts.of(gradients + first * K);
    for (int64_t row = 0; row < count; ++row, from += K, to += K)
      for (int64_t k = 0; k < K; ++k) to[k] = from[k] * factors[first + row];
    drafts.write(count * K, gradients + first * K);
  });
}

}  // namespace

at::Tensor slope_times(const at::Tensor& slope, const at::Tensor& of_loss, at::ScalarType type, bool in_place) {
  const at::Tensor factors = of_loss.to(at::kFloat).contiguous();
  const at::Tensor gradient = in_place && slope.scalar_type() == type ? slope : at::empty_like(slope, type);
  const int64_t rows = factors.numel(), K = slope.size(-1);
  with_elements(type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Kernel = device::SlopesTimesFactors<T>;
    const Kernel kernel{device::data<const device::SlopeOf<T>>(slope), factors.const_data_ptr<float>(), K, rows * K,
                        device::data<T>(gradient)};
    if (device::takes_loops(slope)) {
      scale_rows(kernel.slopes, kernel.factors, rows, K, kernel.gradients);
    } else {
      device::for_each(slope, device::blocks_for(rows * K, Kernel::kWidth), kernel);
    }
  });
  return gradient;
}

torch::autograd::variable_list detail::WithSlope::forward(torch::autograd::AutogradContext* context,
                                                          const at::Tensor& predictions, bool shown, Kernel kernel) {
  auto [loss, slope] = kernel(true);
  context->saved_data["type"] = static_cast<int64_t>(predictions.scalar_type());
  context->saved_data["shown"] = shown;
  context->save_for_backward({slope});
  if (!shown) return {loss};
  context->mark_non_differentiable({slope});
  context->set_materialize_grads(false);  // none of the slope's size, full of zeros
  return {loss, slope};
}

torch::autograd::variable_list detail::WithSlope::backward(torch::autograd::AutogradContext* context,
                                                           torch::autograd::variable_list gradients) {
  refuse_second_derivative("a loss that comes with its slope");
  if (!gradients[0].defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
  // The slope of the logits is among the largest tensors of a step. Where nobody will ask for it again, the gradient
  // takes its place.
  const bool needed = context->saved_data["shown"].toBool() || torch::autograd::get_current_graph_task_keep_graph();
  return {slope_times(context->get_saved_variables()[0], gradients[0],
                      static_cast<at::ScalarType>(context->saved_data["type"].toInt()), /*in_place=*/!needed),
          {},
          {}};
}

LossAndSlopeTensors differentiable_loss(const at::Tensor& predictions, bool with_slope,
                                        detail::WithSlope::Kernel kernel) {
  const bool wanted = at::GradMode::is_enabled() && predictions.requires_grad();
  at::AutoDispatchBelowADInplaceOrView below;
  if (!wanted) return kernel(with_slope);
  const torch::autograd::variable_list result = detail::WithSlope::apply(predictions, with_slope, kernel);
  return {result[0], with_slope ? result[1] : at::empty({0}, predictions.options())};
}

}  // namespace osprey::kernels
