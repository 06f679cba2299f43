#include "osprey/kernels/box_loss.h"

#include <ATen/ATen.h>

#include <limits>

#include "kernels/check_range.h"
#include "kernels/code_scales.h"
#include "kernels/device/boxes.h"
#include "kernels/operator.h"
#include "kernels/with_slope.h"

namespace osprey::kernels {
namespace {

void check_loss(const at::Tensor& predictions, const at::Tensor& weights) {
  TORCH_CHECK(takes_box_loss(predictions, weights), "expected float32 predictions [B, A, K] with weights [B, A], got ",
              predictions.toString(), " ", predictions.sizes(), " with ", weights.toString(), " ", weights.sizes());
}

/// codes  a function that gives what the predictions are compared with; not called for tensors without values
template <class Form, class Codes>
LossAndSlopeTensors box_loss(const at::Tensor& predictions, const at::Tensor& weights, bool with_slope,
                             const Form& form, Codes codes) {
  const at::Tensor x = predictions.contiguous(), w = weights.contiguous();
  at::Tensor loss = at::empty_like(w), slope = with_slope ? at::empty_like(x) : at::empty({0}, x.options());
  if (x.is_meta()) return {loss, slope};
  device::for_each(x, w.numel(),
                   device::BoxLoss<Form, std::invoke_result_t<Codes>>{
                       form, codes(), x.const_data_ptr<float>(), w.const_data_ptr<float>(), static_cast<int>(x.size(2)),
                       loss.mutable_data_ptr<float>(), with_slope ? slope.mutable_data_ptr<float>() : nullptr});
  return {loss, slope};
}

template <class Form>
LossAndSlopeTensors loss_to_targets(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                                    bool with_slope, const Form& form) {
  check_loss(predictions, weights);
  TORCH_CHECK(targets.scalar_type() == at::kFloat && targets.sizes() == predictions.sizes(),
              "expected float32 targets like the predictions, ", predictions.sizes(), ", got ", targets.toString(), " ",
              targets.sizes());
  const at::Tensor t = targets.contiguous();
  return box_loss(predictions, weights, with_slope, form,
                  [&] { return device::WrittenCodes{t.const_data_ptr<float>()}; });
}

LossAndSlopeTensors smooth_l1(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                              double delta, bool with_slope) {
  return loss_to_targets(predictions, targets, weights, with_slope, SmoothL1Form{static_cast<float>(delta)});
}

LossAndSlopeTensors encoded_smooth_l1(const at::Tensor& predictions, const at::Tensor& boxes, const at::Tensor& match,
                                      const at::Tensor& anchors, at::ArrayRef<double> scales, const at::Tensor& weights,
                                      double delta, bool with_slope) {
  check_loss(predictions, weights);
  const int64_t B = predictions.size(0), A = predictions.size(1);
  TORCH_CHECK(predictions.size(2) == 4, "expected codes of boxes, [B, A, 4], got ", predictions.sizes());
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(0) == B && boxes.size(2) == 4 && boxes.scalar_type() == at::kFloat,
              "boxes must be float32 [", B, ", M, 4], got ", boxes.toString(), " ", boxes.sizes());
  TORCH_CHECK(match.scalar_type() == at::kLong && match.sizes() == at::IntArrayRef({B, A}), "match must be int64 [", B,
              ", ", A, "], got ", match.toString(), " ", match.sizes());
  TORCH_CHECK(anchors.scalar_type() == at::kFloat && anchors.sizes() == at::IntArrayRef({A, 4}),
              "anchors must be float32 [", A, ", 4], got ", anchors.toString(), " ", anchors.sizes());
  const CodeScales own = code_scales(scales);
  const at::Tensor b = boxes.contiguous(), m = match.contiguous(), a = anchors.contiguous();
  check_range(m, std::numeric_limits<int64_t>::min(), boxes.size(1), "a match");
  return box_loss(predictions, weights, with_slope, SmoothL1Form{static_cast<float>(delta)}, [&] {
    return device::MatchedCodes{
        b.const_data_ptr<float>(), m.const_data_ptr<int64_t>(), a.const_data_ptr<float>(), b.size(1), A, own};
  });
}

LossAndSlopeTensors giou(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                         bool with_slope) {
  TORCH_CHECK(predictions.dim() == 3 && predictions.size(2) == 4, "expected boxes [B, A, 4], got ",
              predictions.sizes());
  return loss_to_targets(predictions, targets, weights, with_slope, GiouForm{});
}

auto smooth_l1_operator() {
  static const auto operation = find_operator("smooth_l1_loss", &smooth_l1);
  return operation;
}

auto encoded_smooth_l1_operator() {
  static const auto operation = find_operator("encoded_smooth_l1_loss", &encoded_smooth_l1);
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

LossAndSlopeTensors differentiable_encoded_smooth_l1(const at::Tensor& predictions, const at::Tensor& boxes,
                                                     const at::Tensor& match, const at::Tensor& anchors,
                                                     at::ArrayRef<double> scales, const at::Tensor& weights,
                                                     double delta, bool with_slope) {
  return differentiable_loss(predictions, with_slope, [&](bool slope) {
    return encoded_smooth_l1_operator().call(predictions, boxes, match, anchors, scales, weights, delta, slope);
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
  define(library,
         "encoded_smooth_l1_loss(Tensor predictions, Tensor boxes, Tensor match, Tensor anchors, float[] scales, "
         "Tensor weights, float delta, bool with_slope) -> (Tensor, Tensor)",
         &encoded_smooth_l1, &differentiable_encoded_smooth_l1);
  define(library, "giou_loss(Tensor predictions, Tensor targets, Tensor weights, bool with_slope) -> (Tensor, Tensor)",
         &giou, &differentiable_giou);
}

}  // namespace

bool takes_box_loss(const at::Tensor& predictions, const at::Tensor& weights) {
  return has_kernels(predictions) && predictions.scalar_type() == at::kFloat && weights.scalar_type() == at::kFloat &&
         predictions.dim() == 3 && predictions.size(2) <= device::kMostCodes && weights.dim() == 2 &&
         weights.sizes() == predictions.sizes().slice(0, 2);
}

at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                          double delta) {
  return std::get<0>(smooth_l1_operator().call(predictions, targets, weights, delta, false));
}

at::Tensor encoded_smooth_l1_loss(const at::Tensor& predictions, const MatchedBoxes& targets, const at::Tensor& weights,
                                  double delta) {
  return std::get<0>(encoded_smooth_l1_operator().call(predictions, targets.boxes, targets.match, targets.anchors,
                                                       numbers(targets.scales), weights, delta, false));
}

at::Tensor giou_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights) {
  return std::get<0>(giou_operator().call(predictions, targets, weights, false));
}

}  // namespace osprey::kernels
