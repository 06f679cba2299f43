#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "osprey/kernels/epilogue.h"

namespace osprey::kernels {

struct BatchNormed {
  at::Tensor y;                  ///< like x
  at::Tensor mean;               ///< [C] float32: of the batch
  at::Tensor inverse_deviation;  ///< [C] float32: 1 / sqrt(biased variance of the batch + epsilon)
  /// Where something was added: y, in the same memory, for the other of two layers that read it. Their gradients are
  /// then added up where they are taken back, instead of in a pass of their own. Neither may be written in place.
  at::Tensor again;
};

struct BatchNormGradients {
  at::Tensor x;            ///< like x
  at::Tensor gamma, beta;  ///< [C] float32
  at::Tensor addend;       ///< like x; undefined where nothing was added
};

/// Adds up numbers over the replicas that train together, in place; every replica has as many images.
struct ReplicaSum {
  std::function<void(const at::Tensor&)> sum;  ///< float64, on the device of the maps
  int64_t replicas = 1;
};

/// Whether the two functions below take a tensor: a channels_last map of float32, bfloat16 or float16, on a device that
/// there are kernels for. Whatever else there is has to go through the operations of libtorch.
bool fuses_batch_norm(const at::Tensor& x);

/// y = epilogue((x - mean) * inverse_deviation * gamma + beta + addend): batch norm by the statistics of the batch, the
/// sum that a residual unit ends with, and an activation, in one pass for the statistics and one for the values. Sums
/// are made in fixed blocks, so threads do not change a bit. Gradients flow from y to x, gamma, beta and addend;
/// nothing but x is kept for them, and y where a sum was clamped.
///
/// x      [B, C, H, W] for which fuses_batch_norm holds, not empty
/// gamma  [C] float32; undefined: 1      beta  [C] float32; undefined: 0
/// over   where not null, the statistics are those of all replicas' batches together; the gradients of gamma and beta
///        are those of this replica's part all the same
/// addend like x; undefined: nothing. With one the epilogue is a clamp
/// throws c10::Error for other types, layouts and sizes
/// source  Ioffe and Szegedy, "Batch Normalization", ICML 2015, algorithm 1
/// operator osprey::batch_norm_activation
BatchNormed batch_norm_activation(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta, double epsilon,
                                  const Epilogue& epilogue, const std::shared_ptr<const ReplicaSum>& over = nullptr,
                                  const at::Tensor& addend = {});

/// The gradients of `batch_norm_activation` by themselves.
/// gradient_y  like x; with a sum it may come in two parts, of which `gradient_again` is the second
/// statistics  as `batch_norm_activation` gave them (y is not looked at)
/// sum         its y where an addend had come in; undefined: there was none
/// returns     like x, [C] float32 for gamma and beta, and like x for the addend, undefined where there was none
/// throws      c10::Error for other types, layouts and sizes
/// operator    osprey::batch_norm_activation_backward
BatchNormGradients batch_norm_activation_backward(const at::Tensor& gradient_y, const at::Tensor& x,
                                                  const at::Tensor& gamma, const at::Tensor& beta,
                                                  const BatchNormed& statistics, const Epilogue& epilogue,
                                                  const at::Tensor& sum = {}, const at::Tensor& gradient_again = {});

}  // namespace osprey::kernels
