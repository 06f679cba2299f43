#include "osprey/kernels/assign_targets.h"

#include <ATen/ATen.h>

#include "kernels/box_passes.h"
#include "kernels/check_range.h"
#include "kernels/code_scales.h"
#include "kernels/operator.h"

namespace osprey::kernels {
namespace {

constexpr int64_t kFirstBox = device::ClassRows::kFirstBox;
static_assert(Match::kIgnore + kFirstBox == 0 && Match::kBackground + kFirstBox == 1);

using FiveTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// Writes what the rows of classes are, and what the anchors have of them.
void write_targets(const at::Tensor& where, const device::ClassRows& classes, const device::AnchorTargets& of_anchors,
                   int64_t B, int64_t A) {
  const int64_t numbers = classes.count(B);
  if (device::takes_loops(where)) {
    const int64_t of_image = classes.count(1);
    parallel_for(B, [&](int64_t image) {
      for (int64_t i = image * of_image; i < (image + 1) * of_image; ++i) classes(i);
    });
    return loop_over_anchors(B, A, of_anchors);
  }
  // One kernel instead of two, of which the first would be over before the GPU is busy.
  using Classes = device::Each<device::ClassRows>;
  using Anchors = device::EachAnchor<device::AnchorTargets>;
  const Anchors anchors{of_anchors, B, A};
  const device::TwoKernels<Classes, Anchors> both{Classes{classes, numbers},
                                                  device::blocks_for(numbers, Classes::kThreads), anchors};
  device::launch(where, both.first_blocks + anchors.blocks(), both);
}

FiveTensors assign(const at::Tensor& boxes, const at::Tensor& labels, const at::Tensor& weights,
                   const at::Tensor& match, const at::Tensor& anchors, at::ArrayRef<double> scales,
                   bool background_in_first_column, double background_weight) {
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(2) == 4 && boxes.scalar_type() == at::kFloat,
              "boxes must be float32 [B, M, 4], got ", boxes.toString(), " ", boxes.sizes());
  TORCH_CHECK(anchors.dim() == 2 && anchors.size(1) == 4 && anchors.scalar_type() == at::kFloat,
              "anchors must be float32 [A, 4], got ", anchors.toString(), " ", anchors.sizes());
  const int64_t B = boxes.size(0), M = boxes.size(1), A = anchors.size(0);
  TORCH_CHECK(
      labels.dim() == 3 && labels.sizes().slice(0, 2) == at::IntArrayRef({B, M}) && labels.scalar_type() == at::kFloat,
      "labels must be float32 [", B, ", ", M, ", C], got ", labels.toString(), " ", labels.sizes());
  TORCH_CHECK(weights.sizes() == at::IntArrayRef({B, M}) && weights.scalar_type() == at::kFloat,
              "weights must be float32 [", B, ", ", M, "], got ", weights.toString(), " ", weights.sizes());
  TORCH_CHECK(match.scalar_type() == at::kLong && match.sizes() == at::IntArrayRef({B, A}), "match must be int64 [", B,
              ", ", A, "], got ", match.toString(), " ", match.sizes());
  const bool encodes = !scales.empty();
  const int64_t C = labels.size(2);
  const at::TensorOptions floats = boxes.options();
  const at::Tensor class_rows = at::empty({B, M + kFirstBox, C}, floats),
                   class_weights = at::empty({B, M + kFirstBox, 1}, floats), row = at::empty({B, A}, match.options()),
                   codes = at::empty({B, A, encodes ? 4 : 0}, floats), box_weights = at::empty({B, A}, floats);
  if (!boxes.is_meta()) {
    const at::Tensor b = device::aligned(boxes), l = labels.contiguous(), w = weights.contiguous(),
                     m = match.contiguous(), a = device::aligned(anchors);
    check_range(m, Match::kIgnore, M, "a match");
    const device::ClassRows classes{l.const_data_ptr<float>(),
                                    w.const_data_ptr<float>(),
                                    M,
                                    C,
                                    background_in_first_column ? 1.0f : 0.0f,
                                    static_cast<float>(background_weight),
                                    class_rows.mutable_data_ptr<float>(),
                                    class_weights.mutable_data_ptr<float>()};
    const device::AnchorTargets of_anchors{{b.const_data_ptr<float>(), m.const_data_ptr<int64_t>(),
                                            a.const_data_ptr<float>(), M, encodes ? code_scales(scales) : CodeScales()},
                                           w.const_data_ptr<float>(),
                                           row.mutable_data_ptr<int64_t>(),
                                           encodes ? codes.mutable_data_ptr<float>() : nullptr,
                                           box_weights.mutable_data_ptr<float>()};
    write_targets(boxes, classes, of_anchors, B, A);
  }
  return {class_rows, class_weights, row, codes, box_weights};
}

TORCH_LIBRARY_FRAGMENT(osprey, library) {
  define(library,
         "assign_targets(Tensor boxes, Tensor labels, Tensor weights, Tensor match, Tensor anchors, float[] scales, "
         "bool background_in_first_column, float background_weight) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
         &assign);
}

}  // namespace

Targets assign_targets(const LabeledBoxes& truth, const at::Tensor& match, const at::Tensor& anchors,
                       const CodeScales* scales, const Background& background) {
  static const auto operation = find_operator("assign_targets", &assign);
  const auto [class_rows, class_weights, row, codes, box_weights] = operation.call(
      truth.boxes.detach(), truth.labels.detach(), truth.weights.detach(), match, anchors.detach(),
      scales != nullptr ? numbers(*scales) : std::vector<double>(), background.in_first_column, background.weight);
  return {
      {class_rows, class_weights, row}, scales != nullptr ? codes : at::Tensor(), box_weights, {match}, truth.boxes};
}

}  // namespace osprey::kernels
