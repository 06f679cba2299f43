#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/config/registry.h"
#include "osprey/core/targets.h"

namespace osprey::losses {

/// Compares class logits with class targets; un-reduced, so that a caller can mine, mask and sum.
///
///     auto loss = build_classification_loss(node);           // losses/builder.h
///     at::Tensor sum = (*loss)(logits, targets, weights).sum();
class ClassificationLoss {
 public:
  using Registry = config::Registry<ClassificationLoss>;
  virtual ~ClassificationLoss() = default;

  /// The loss with its weights applied and nothing summed that the formula does not sum.
  ///
  /// logits   [B, A, C] any float type; computed in float32 at least; gradients flow back to them
  /// targets  [B, A, C] in 0..1, unless the loss says otherwise; no gradient
  /// weights  [B, A, C], or [B, A, 1] for the same weight in every class; zero gives zero gradient and zero
  ///          loss (dice: one for each class without weight)
  /// returns  [B, A, C] for losses that treat the classes apart, [B, A] for those that couple them (softmax),
  ///          [B, C] for those that couple the anchors (dice)
  /// throws   c10::Error when the shapes disagree
  at::Tensor operator()(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const;

  /// The same of targets by row, summed over the classes where the loss treats them apart: [B, A], or [B, C] for losses
  /// that couple the anchors. Where there is a kernel for the loss, the targets are not written out for every anchor.
  at::Tensor summed(const at::Tensor& logits, const ClassTargets& targets) const;

 protected:
  /// What a loss has to define. The arguments are checked: float32 or float64, all of one type, targets without
  /// gradient.
  virtual at::Tensor compute(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights) const = 0;
  /// What a loss may define besides; the arguments are checked likewise.
  virtual at::Tensor compute_summed(const at::Tensor& logits, const ClassTargets& targets) const;
};

}  // namespace osprey::losses
