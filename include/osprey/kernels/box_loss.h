#pragma once
#include <ATen/core/Tensor.h>

/// Localisation losses and their slopes in one pass. Predictions and targets are float32 [B, A, K], the weights [B, A],
/// the result [B, A]; gradients flow to the predictions. All throw c10::Error for other types and shapes.
namespace osprey::kernels {

/// Whether the losses below take these tensors.
bool takes_box_loss(const at::Tensor& predictions, const at::Tensor& weights);

/// Huber's loss of each code, d^2 / 2 up to |d| = delta and delta (|d| - delta / 2) beyond, summed over at most 32
/// codes and weighted. operator osprey::smooth_l1_loss
at::Tensor smooth_l1_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights,
                          double delta);

/// 1 - generalised intersection over union of boxes (K = 4), weighted.
/// source   Rezatofighi et al., "Generalized Intersection over Union", CVPR 2019, algorithm 2
/// operator osprey::giou_loss
at::Tensor giou_loss(const at::Tensor& predictions, const at::Tensor& targets, const at::Tensor& weights);

}  // namespace osprey::kernels
