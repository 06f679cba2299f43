#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>

#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/nn/activation.h"

namespace osprey::nn {

/// The activation as the kernels know it, where they do.
std::optional<kernels::Epilogue> epilogue_of(Activation activation);
/// The same of those that are clamps, which is what the kernels can do to a sum.
std::optional<kernels::Epilogue> clamp_of(Activation activation);

/// Batch norm by the statistics of the batch, plus an addend, then the activation: in training, of every map that does
/// not go through a chain of convolutions that normalise as they read. Gradients flow to x, gamma, beta and addend
/// (each of the latter may be undefined).
///
/// over  where not null, statistics of all replicas together
kernels::BatchNormed batch_norm_activation(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta,
                                           double epsilon, Activation activation,
                                           const std::shared_ptr<const kernels::ReplicaSum>& over,
                                           const at::Tensor& addend = {});

}  // namespace osprey::nn
