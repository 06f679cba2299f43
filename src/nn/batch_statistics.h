#pragma once
#include <ATen/core/Tensor.h>

#include <memory>

#include "osprey/kernels/batch_norm_activation.h"

namespace osprey::nn {

/// Of each channel of a batch.
struct BatchStatistics {
  at::Tensor mean, inverse_deviation;  ///< [C] float32; 1 / sqrt(biased variance + epsilon)
};

/// Statistics by themselves, for what else than the normalised map is made of them: gradients flow to the map.
/// x     [B, C, H, W]
/// over  where not null, of all replicas together; gradients, too, are then added up over them
BatchStatistics batch_statistics(const at::Tensor& x, double epsilon,
                                 const std::shared_ptr<const kernels::ReplicaSum>& over);

}  // namespace osprey::nn
