#include "osprey/targets/target_assigner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "osprey/kernels/assign_targets.h"
#include "osprey/kernels/device.h"
#include "osprey/kernels/match_anchors.h"

namespace osprey::targets {
namespace {

/// The ground truth with every optional tensor filled in, and shapes checked.
struct Rows {
  at::Tensor boxes, valid, weights;  ///< [B, M, 4], [B, M], [B, M]
  int64_t B, M;
};

Rows checked(const at::Tensor& anchors, const Groundtruth& truth) {
  TORCH_CHECK(anchors.dim() == 2 && anchors.size(1) == 4, "anchors must be [A, 4], got ", anchors.sizes());
  TORCH_CHECK(truth.boxes.defined() && truth.boxes.dim() == 3 && truth.boxes.size(2) == 4,
              "groundtruth boxes must be [B, M, 4]");
  const int64_t B = truth.boxes.size(0), M = truth.boxes.size(1);
  const at::IntArrayRef per_box = truth.boxes.sizes().slice(0, 2);
  TORCH_CHECK(!truth.valid.defined() || truth.valid.sizes() == per_box, "groundtruth valid must be ", per_box);
  TORCH_CHECK(!truth.weights.defined() || truth.weights.sizes() == per_box, "groundtruth weights must be ", per_box);
  const at::Tensor boxes = truth.boxes.detach().to(at::kFloat);
  // A box that is not finite takes no part, on every path alike.
  at::Tensor valid = boxes.isfinite().all(-1);
  if (truth.valid.defined()) valid = valid.logical_and(truth.valid);
  const at::Tensor weights =
      truth.weights.defined() ? truth.weights.detach().to(at::kFloat) : at::ones({B, M}, boxes.options());
  return {boxes, valid, weights, B, M};
}

/// The class row of every box without added background: [B, M, K] float32.
at::Tensor k_hot(const Groundtruth& truth, const Rows& rows, const TargetAssignerOptions& options) {
  const int64_t columns = options.num_classes + (options.explicit_background_class ? 1 : 0);
  if (truth.classes.dim() == 3) {
    TORCH_CHECK(truth.classes.size(0) == rows.B && truth.classes.size(1) == rows.M && truth.classes.size(2) == columns,
                "groundtruth classes must be [", rows.B, ", ", rows.M, ", ", columns, "], got ", truth.classes.sizes());
    return truth.classes.to(at::kFloat);
  }
  TORCH_CHECK(truth.classes.dim() == 2 && truth.classes.size(0) == rows.B && truth.classes.size(1) == rows.M,
              "groundtruth classes must be [", rows.B, ", ", rows.M, "], got ", truth.classes.sizes());
  if (!kernels::device::reading_waits(truth.classes)) {
    const at::Tensor outside =
        rows.valid.logical_and((truth.classes < 0).logical_or(truth.classes >= options.num_classes));
    TORCH_CHECK(!outside.any().item<bool>(), "a groundtruth class lies outside [0, ", options.num_classes, ")");
  }
  const int64_t first = options.explicit_background_class ? 1 : 0;
  const at::Tensor column = at::arange(columns, truth.classes.options());
  return column.eq((truth.classes + first).unsqueeze(-1)).to(at::kFloat);
}

/// The label of every box, with its background column: [B, M, L]
at::Tensor labels(const Groundtruth& truth, const Rows& rows, const TargetAssignerOptions& options) {
  TORCH_CHECK(truth.classes.defined(), "groundtruth classes are missing");
  at::Tensor result = k_hot(truth, rows, options);
  if (options.use_confidences_as_targets && truth.confidences.defined()) {
    if (truth.confidences.dim() == 3) {
      TORCH_CHECK(truth.confidences.sizes() == result.sizes(), "groundtruth confidences must be ", result.sizes(),
                  ", got ", truth.confidences.sizes());
      result = truth.confidences.to(at::kFloat);
    } else {
      TORCH_CHECK(truth.confidences.sizes() == rows.valid.sizes(), "groundtruth confidences must be ",
                  rows.valid.sizes());
      result = result * truth.confidences.to(at::kFloat).unsqueeze(-1);
    }
  }
  return options.add_background_class ? at::constant_pad_nd(result, {1, 0}) : result;
}

bool has_background(const TargetAssignerOptions& options) {
  return options.add_background_class || options.explicit_background_class;
}

/// Weights from explicit confidences: 1 for what somebody said something about, `implicit_example_weight` for the rest.
void weigh_by_confidence(Targets& targets, const TargetAssignerOptions& options) {
  const int64_t first = has_background(options) ? 1 : 0;
  const at::Tensor classes = targets.classes.rows.narrow(-1, first, targets.classes.rows.size(-1) - first);
  const at::Tensor negative = classes < 0;
  const at::Tensor positive_row = (classes > 0).any(-1).to(at::kFloat);
  const auto weight = [&](const at::Tensor& is_explicit) {
    return is_explicit * (1 - options.implicit_example_weight) + options.implicit_example_weight;
  };
  at::Tensor class_targets = classes.masked_fill(negative, 0);
  at::Tensor class_weights = weight((classes != 0).to(at::kFloat));
  if (first == 1) {
    class_targets = at::cat({(1 - positive_row).unsqueeze(-1), class_targets}, -1);
    class_weights = at::cat({weight(positive_row).unsqueeze(-1), class_weights}, -1);
  }
  targets.classes.rows = class_targets;
  targets.classes.weights = class_weights;
  targets.box_weights = rows_of_anchors(positive_row, targets.classes.row);
  if (targets.boxes.defined()) targets.boxes = targets.boxes * targets.box_weights.unsqueeze(-1);
}

}  // namespace

TargetAssigner::TargetAssigner(std::unique_ptr<RegionSimilarity> similarity, std::unique_ptr<Matcher> matcher,
                               std::unique_ptr<boxes::BoxCoder> coder, const TargetAssignerOptions& options)
    : similarity_(std::move(similarity)), matcher_(std::move(matcher)), coder_(std::move(coder)), options_(options) {
  TORCH_CHECK(options_.num_classes >= 1, "num_classes must be >= 1, got ", options_.num_classes);
  TORCH_CHECK(!(options_.add_background_class && options_.explicit_background_class),
              "a background class is either added or explicit, not both");
}

Match TargetAssigner::match(const at::Tensor& anchors, const Groundtruth& truth, bool general) const {
  const Rows rows = checked(anchors, truth);
  const at::Tensor float_anchors = anchors.detach().to(at::kFloat), enabled = rows.weights > 0;
  if (!general && similarity_->is_iou() && matcher_->argmax_options() != nullptr)
    return {kernels::match_anchors(rows.boxes, rows.valid, enabled, float_anchors, *matcher_->argmax_options())};

  // How sure it is that a box is an object: all but its share of background, which only explicit classes have.
  const at::Tensor scores = options_.explicit_background_class && truth.classes.defined() && truth.classes.dim() == 3
                                ? 1 - truth.classes.select(-1, 0).to(at::kFloat)
                                : at::ones_like(rows.weights);
  std::vector<at::Tensor> matches;
  for (int64_t b = 0; b < rows.B; ++b) {
    const at::Tensor real = rows.valid[b].nonzero().flatten();
    const auto pick = [&](const at::Tensor& t) { return t[b].index_select(0, real); };
    const at::Tensor similarity = similarity_->compare(pick(rows.boxes), float_anchors, pick(scores));
    const at::Tensor found = matcher_->match(similarity, pick(enabled)).to(real.device());
    // Rows of the real boxes back to rows of all boxes.
    matches.push_back(real.size(0) == 0 ? found
                                        : at::where(found >= 0, real.index_select(0, found.clamp_min(0)), found));
  }
  return {matches.empty() ? at::empty({0, anchors.size(0)}, rows.boxes.options().dtype(at::kLong))
                          : at::stack(matches)};
}

Targets TargetAssigner::assign(const at::Tensor& anchors, const Groundtruth& truth, bool encode) const {
  at::NoGradGuard no_grad;
  const Rows rows = checked(anchors, truth);
  const at::Tensor found = match(anchors, truth).box, float_anchors = anchors.detach().to(at::kFloat);
  Targets targets =
      kernels::assign_targets({rows.boxes, labels(truth, rows, options_), rows.weights}, found, float_anchors,
                              encode ? coder_->center_size_scales() : nullptr,
                              {.in_first_column = has_background(options_) && !options_.encode_background_as_zeros,
                               .weight = options_.negative_class_weight});
  if (encode && !targets.boxes.defined())
    targets.boxes = coder_->encode_matched(rows.boxes, found, float_anchors,
                                           truth.keypoints.defined() ? truth.keypoints.to(at::kFloat) : at::Tensor());
  if (options_.use_confidences_as_targets && truth.confidences.defined()) weigh_by_confidence(targets, options_);
  return targets;
}

}  // namespace osprey::targets
