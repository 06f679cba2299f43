#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/config/registry.h"
#include "osprey/kernels/box_loss.h"

namespace osprey::losses {

/// Compares predicted with wanted box codes; un-reduced, so that a caller can mine, mask and sum.
class LocalizationLoss {
 public:
  using Registry = config::Registry<LocalizationLoss>;
  virtual ~LocalizationLoss() = default;

  /// The loss with its weights applied.
  ///
  /// predictions  [B, A, K] any float type; computed in float32 at least; gradients flow back to them
  /// targets      [B, A, K]; no gradient. A NaN target (a keypoint nobody annotated) adds no loss and no gradient
  /// weights      [B, A]; or [B, A, K] for losses that treat the codes apart
  /// returns      [B, A] where the formula sums over the codes, [B, A, K] where it does not (l1), [B * A] for
  ///              weighted_iou, as the original
  /// throws       c10::Error when the shapes disagree
  at::Tensor operator()(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights) const;

  /// The same of targets that are still to be encoded, which are then not written out for the anchors: predictions
  /// [B, A, 4], weights [B, A]. Computed in float32. Only where the loss `encodes`, else it throws c10::Error.
  virtual at::Tensor of_boxes(const at::Tensor& predictions, const kernels::MatchedBoxes& targets,
                              const at::Tensor& weights) const;
  virtual bool encodes() const { return false; }

  /// Whether the loss reads boxes [ymin, xmin, ymax, xmax] and not encoded ones: its caller decodes both sides first.
  virtual bool compares_boxes() const { return false; }

 protected:
  /// What a loss has to define. The arguments are checked: float32 or float64, all of one type, no NaN targets.
  virtual at::Tensor compute(const at::Tensor& predictions, const at::Tensor& targets,
                             const at::Tensor& weights) const = 0;
  /// What a loss may define besides: the same in one pass, where there is a kernel for these tensors; else undefined.
  /// Here targets may be NaN.
  virtual at::Tensor compute_at_once(const at::Tensor& predictions, const at::Tensor& targets,
                                     const at::Tensor& weights) const;
};

/// One value per anchor, [B, A], whatever a loss returned for B images of A anchors: [B, A], [B, A, K] or [B * A].
at::Tensor per_anchor(const at::Tensor& loss, int64_t images, int64_t anchors);

}  // namespace osprey::losses
