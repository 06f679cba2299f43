#pragma once
#include <ATen/core/Tensor.h>

#include "osprey/kernels/code_scales.h"

/// Localisation losses and their slopes in one pass. Predictions and targets are float32 [B, A, K], the weights [B, A],
/// the result [B, A]; gradients flow to the predictions. A target that is NaN counts as equal to the prediction. All
/// throw c10::Error for other types and shapes.
namespace osprey::kernels {

/// The boxes of a batch, and whose each anchor is: targets that are still to be encoded.
struct MatchedBoxes {
  at::Tensor boxes;    ///< [B, M, 4] float32, in the coordinates of the anchors
  at::Tensor match;    ///< [B, A] int64: index into the M boxes, M and more is refused on a CPU; the code of an anchor
                       ///< with a negative one is zero
  at::Tensor anchors;  ///< [A, 4] float32
  CodeScales scales;   ///< of the codes, see kernels/box_codes.h
};

/// Whether the losses below take these tensors.
bool takes_box_loss(const at::Tensor& predictions, const at::Tensor& weights);

/// Huber's loss of each code, d^2 / 2 up to |d| = delta and delta (|d| - delta / 2) beyond, summed over at most 32
/// codes and weighted.
///
/// operator osprey::smooth_l1_loss
at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                          double delta);

/// The same for K = 4, each target encoded where it is compared: no codes are written for the anchors.
/// operator osprey::encoded_smooth_l1_loss
at::Tensor encoded_smooth_l1_loss(const at::Tensor& predictions, const MatchedBoxes& targets, const at::Tensor& weights,
                                  double delta);

/// 1 - generalised intersection over union of boxes (K = 4), weighted; just the weight, without slope, where the area
/// around both is not positive.
/// source   Rezatofighi et al., "Generalized Intersection over Union", CVPR 2019, algorithm 2
/// operator osprey::giou_loss
at::Tensor giou_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights);

}  // namespace osprey::kernels
