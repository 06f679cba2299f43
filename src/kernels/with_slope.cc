#include "kernels/with_slope.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/device/launch.h"
#include "kernels/device/slopes.h"
#include "kernels/no_second_derivative.h"
#include "kernels/operator.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

/// On a CPU, some rows of `K` numbers at a time.
template <class Slope, class T>
void scale_all_rows(const Slope* slopes, const float* factors, int64_t rows, int64_t K, T* gradients) {
  constexpr int64_t kNumbersAtATime = 4096;  // which stay in the nearest cache as floats
  const int64_t at_a_time = std::max<int64_t>(1, kNumbersAtATime / std::max<int64_t>(1, K));
  parallel_for((rows + at_a_time - 1) / at_a_time, [&](int64_t block) {
    const int64_t first = block * at_a_time, count = std::min(at_a_time, rows - first);
    const auto space = cpu::scratch(std::is_same_v<Slope, float> ? 0 : count * K);
    const cpu::Drafts<T> drafts(count * K);
    const float* const from = cpu::floats_of(slopes + first * K, count * K, space.get());
    cpu::scale_rows(from, factors + first, count, K, drafts.of(gradients + first * K));
    drafts.write(count * K, gradients + first * K);
  });
}

/// gradients  of `type`; may be the slopes
void multiply(const at::Tensor& slopes, const at::Tensor& of_loss, at::ScalarType type, const at::Tensor& gradients) {
  const at::Tensor factors = of_loss.to(at::kFloat).contiguous();
  const int64_t rows = factors.numel(), K = slopes.size(-1);
  with_elements(type, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    using Kernel = device::SlopesTimesFactors<T>;
    const bool at_once =
        device::begins_at_multiple(slopes.const_data_ptr(), Kernel::kWidth * sizeof(device::SlopeOf<T>)) &&
        device::begins_at_multiple(gradients.const_data_ptr(), Kernel::kWidth * sizeof(T));
    const Kernel kernel{device::data<const device::SlopeOf<T>>(slopes),
                        factors.const_data_ptr<float>(),
                        K,
                        rows * K,
                        at_once,
                        device::data<T>(gradients)};
    if (device::takes_loops(slopes)) {
      scale_all_rows(kernel.slopes, kernel.factors, rows, K, kernel.gradients);
    } else {
      device::for_each(slopes, device::blocks_for(rows * K, Kernel::kWidth), kernel);
    }
  });
}

void check(const at::Tensor& slopes, const at::Tensor& of_loss, at::ScalarType type) {
  const at::ScalarType of_slopes = type == at::kHalf ? at::kFloat : type;
  TORCH_CHECK(is_element(type) && slopes.scalar_type() == of_slopes && slopes.dim() > 0 && slopes.is_contiguous(),
              "expected contiguous slopes of ", of_slopes, " for gradients of ", type, ", got ", slopes.toString(), " ",
              slopes.sizes());
  TORCH_CHECK(of_loss.sizes() == slopes.sizes().slice(0, slopes.dim() - 1),
              "expected a gradient for each loss of slopes ", slopes.sizes(), ", got ", of_loss.sizes());
}

/// The gradient of predictions: their slopes times the gradient of each loss. Products are in float32 and rounded once.
at::Tensor scale_slopes(const at::Tensor& slopes, const at::Tensor& of_loss, at::ScalarType type) {
  check(slopes, of_loss, type);
  at::Tensor gradients = at::empty_like(slopes, type);
  if (!slopes.is_meta()) multiply(slopes, of_loss, type, gradients);
  return gradients;
}

/// The same in the memory of the slopes, which have the type of the predictions.
void scale_slopes_in_place(const at::Tensor& slopes, const at::Tensor& of_loss) {
  check(slopes, of_loss, slopes.scalar_type());
  if (!slopes.is_meta()) multiply(slopes, of_loss, slopes.scalar_type(), slopes);
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library, "scale_slopes(Tensor slopes, Tensor of_loss, ScalarType type) -> Tensor", &scale_slopes);
  define(library, "scale_slopes_(Tensor(a!) slopes, Tensor of_loss) -> ()", &scale_slopes_in_place);
}

}  // namespace

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
  static const auto scaled = find_operator("scale_slopes", &scale_slopes);
  static const auto scale = find_operator("scale_slopes_", &scale_slopes_in_place);
  const at::Tensor slope = context->get_saved_variables()[0];
  const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
  // The slope of the logits is among the largest tensors of a step. Where nobody will ask for it again, the gradient
  // takes its place.
  const bool needed = context->saved_data["shown"].toBool() || torch::autograd::get_current_graph_task_keep_graph();
  if (needed || slope.scalar_type() != type) return {scaled.call(slope, gradients[0], type), {}, {}};
  scale.call(slope, gradients[0]);
  return {slope, {}, {}};
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
