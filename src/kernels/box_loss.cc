#include "osprey/kernels/box_loss.h"

#include <ATen/ATen.h>

#include <limits>

#include "kernels/box_passes.h"
#include "kernels/check_range.h"
#include "kernels/code_scales.h"
#include "kernels/operator.h"
#include "kernels/with_slope.h"

namespace osprey::kernels {
namespace {

void check_loss(const at::Tensor& predictions, const at::Tensor& weights) {
  TORCH_CHECK(takes_box_loss(predictions, weights), "expected float32 predictions [B, A, K] with weights [B, A], got ",
              predictions.toString(), " ", predictions.sizes(), " with ", weights.toString(), " ", weights.sizes());
}

/// Losses of weights, and slopes of predictions, to be written.
LossAndSlopeTensors room_for(const at::Tensor& predictions, const at::Tensor& weights, bool with_slope) {
  return {at::empty(weights.sizes(), weights.options()),
          at::empty(with_slope ? predictions.sizes() : at::IntArrayRef({0}), predictions.options())};
}

/// predictions  [B, A, 4]
template <class Form, class Codes>
LossAndSlopeTensors box_loss(const at::Tensor& predictions, const Codes& targets, const at::Tensor& weights,
                             bool with_slope, const Form& form) {
  const auto [loss, slope] = room_for(predictions, weights, with_slope);
  const at::Tensor x = device::aligned(predictions), w = weights.contiguous();
  for_each_anchor(x, x.size(0), x.size(1),
                  device::BoxLoss<Form, Codes>{form, targets, x.const_data_ptr<float>(), w.const_data_ptr<float>(),
                                               loss.mutable_data_ptr<float>(),
                                               with_slope ? slope.mutable_data_ptr<float>() : nullptr});
  return {loss, slope};
}

/// Codes that are not of four numbers.
LossAndSlopeTensors smooth_l1_of_codes(const at::Tensor& predictions, const at::Tensor& targets,
                                       const at::Tensor& weights, bool with_slope, const SmoothL1Form& form) {
  const auto [loss, slope] = room_for(predictions, weights, with_slope);
  const at::Tensor x = predictions.contiguous(), t = targets.contiguous(), w = weights.contiguous();
  device::for_each(x, w.numel(),
                   device::CodeLoss<SmoothL1Form>{form, t.const_data_ptr<float>(), x.const_data_ptr<float>(),
                                                  w.const_data_ptr<float>(), static_cast<int>(x.size(2)),
                                                  loss.mutable_data_ptr<float>(),
                                                  with_slope ? slope.mutable_data_ptr<float>() : nullptr});
  return {loss, slope};
}

void check_targets(const at::Tensor& targets, const at::Tensor& predictions) {
  TORCH_CHECK(targets.scalar_type() == at::kFloat && targets.sizes() == predictions.sizes(),
              "expected float32 targets like the predictions, ", predictions.sizes(), ", got ", targets.toString(), " ",
              targets.sizes());
}

template <class Form>
LossAndSlopeTensors loss_to_boxes(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                                  bool with_slope, const Form& form) {
  const at::Tensor t = device::aligned(targets);
  return box_loss(predictions, device::WrittenCodes{t.const_data_ptr<float>()}, weights, with_slope, form);
}

LossAndSlopeTensors smooth_l1(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                              double delta, bool with_slope) {
  check_loss(predictions, weights);
  check_targets(targets, predictions);
  if (predictions.is_meta()) return room_for(predictions, weights, with_slope);
  const SmoothL1Form form{static_cast<float>(delta)};
  return predictions.size(2) == 4 ? loss_to_boxes(predictions, targets, weights, with_slope, form)
                                  : smooth_l1_of_codes(predictions, targets, weights, with_slope, form);
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
  const at::Tensor m = match.contiguous();
  check_range(m, std::numeric_limits<int64_t>::min(), boxes.size(1), "a match");
  if (predictions.is_meta()) return room_for(predictions, weights, with_slope);
  const at::Tensor b = device::aligned(boxes), a = device::aligned(anchors);
  const device::MatchedCodes codes{b.const_data_ptr<float>(), m.const_data_ptr<int64_t>(), a.const_data_ptr<float>(),
                                   b.size(1), own};
  return box_loss(predictions, codes, weights, with_slope, SmoothL1Form{static_cast<float>(delta)});
}

LossAndSlopeTensors giou(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                         bool with_slope) {
  TORCH_CHECK(predictions.dim() == 3 && predictions.size(2) == 4, "expected boxes [B, A, 4], got ",
              predictions.sizes());
  check_loss(predictions, weights);
  check_targets(targets, predictions);
  if (predictions.is_meta()) return room_for(predictions, weights, with_slope);
  return loss_to_boxes(predictions, targets, weights, with_slope, GiouForm{});
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
