#include "osprey/kernels/box_loss.h"

#include <ATen/ATen.h>

#include "kernels/device/boxes.h"
#include "kernels/operator.h"
#include "kernels/with_slope.h"

namespace osprey::kernels {
namespace {

template <class Form>
LossAndSlopeTensors box_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                             bool with_slope, const Form& form) {
  TORCH_CHECK(takes_box_loss(predictions, weights), "expected float32 predictions [B, A, K] with weights [B, A], got ",
              predictions.toString(), " ", predictions.sizes(), " with ", weights.toString(), " ", weights.sizes());
  TORCH_CHECK(targets.scalar_type() == at::kFloat && targets.sizes() == predictions.sizes(),
              "expected float32 targets like the predictions, ", predictions.sizes(), ", got ", targets.toString(), " ",
              targets.sizes());
  const at::Tensor x = predictions.contiguous(), t = targets.contiguous(), w = weights.contiguous();
  at::Tensor loss = at::empty_like(w), slope = with_slope ? at::empty_like(x) : at::empty({0}, x.options());
  if (x.is_meta()) return {loss, slope};
  device::for_each(
      x, w.numel(),
      device::BoxLoss<Form>{form, x.const_data_ptr<float>(), t.const_data_ptr<float>(), w.const_data_ptr<float>(),
                            static_cast<int>(x.size(2)), loss.mutable_data_ptr<float>(),
                            with_slope ? slope.mutable_data_ptr<float>() : nullptr});
  return {loss, slope};
}

LossAndSlopeTensors smooth_l1(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                              double delta, bool with_slope) {
  return box_loss(predictions, targets, weights, with_slope, SmoothL1Form{static_cast<float>(delta)});
}

LossAndSlopeTensors giou(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                         bool with_slope) {
  TORCH_CHECK(predictions.dim() == 3 && predictions.size(2) == 4, "expected boxes [B, A, 4], got ",
              predictions.sizes());
  return box_loss(predictions, targets, weights, with_slope, GiouForm{});
}

auto smooth_l1_operator() {
  static const auto operation = find_operator("smooth_l1_loss", &smooth_l1);
  return operation;
}

auto giou_operator() {
  static const auto operation = find_operator("giou_loss", &giou);
  return operation;
}

LossAndSlopeTensors differentiable_smooth_l1(const at::Tensor& predictions, const at::Tensor& targets,
                                             const at::Tensor& weights, double delta, bool with_slope) {
  return differentiable_loss(predictions, with_slope, [&](bool slope) {
    return smooth_l1_operator().call(predictions, targets, weights, delta, slope);
  });
}

LossAndSlopeTensors differentiable_giou(const at::Tensor& predictions, const at::Tensor& targets,
                                        const at::Tensor& weights, bool with_slope) {
  return differentiable_loss(predictions, with_slope,
                             [&](bool slope) { return giou_operator().call(predictions, targets, weights, slope); });
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "smooth_l1_loss(Tensor predictions, Tensor targets, Tensor weights, float delta, bool with_slope) -> "
         "(Tensor, Tensor)",
         &smooth_l1, &differentiable_smooth_l1);
  define(library, "giou_loss(Tensor predictions, Tensor targets, Tensor weights, bool with_slope) -> (Tensor, Tensor)",
         &giou, &differentiable_giou);
}

}  // namespace

bool takes_box_loss(const at::Tensor& predictions, const at::Tensor& weights) {
  return has_kernels(predictions) && predictions.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat &&
         predictions.dim() == 3 && predictions.size(2) <= device::BoxLoss<GiouForm>::kMostCodes && weights.dim() == 2 &&
         weights.sizes() == predictions.sizes().slice(0, 2);
}

at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                          double delta) {
  return std::get<0>(smooth_l1_operator().call(predictions, targets, weights, delta, false));
}

at::Tensor giou_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights) {
  return std::get<0>(giou_operator().call(predictions, targets, weights, false));
}

}  // namespace osprey::kernels
