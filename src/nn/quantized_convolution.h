#pragma once
#include "osprey/nn/convolution.h"
#include "osprey/nn/quantization.h"

namespace osprey::nn {

/// A convolution, its batch norm and its activation, rounded by `quantizers`. The weights are rounded with the factor
/// of the batch norm in them, by the moving variance, which changes slowly; what is left of the statistics of a batch,
/// in training, becomes a factor of the result.
///
/// x       [B, C, H, W]
/// biases  [O], or undefined
/// norm    null: none
/// source  Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference: A whitepaper", 2018,
///         section 3.2.2
at::Tensor quantized_convolve(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases,
                              const ConvolutionOptions& options, BatchNorm* norm, Activation activation,
                              const ConvolutionQuantizers& quantizers);

/// Takes note of the ranges of what such a convolution would round, of one whose batch norm is left pending.
void note_ranges(const ConvolutionQuantizers& quantizers, const at::Tensor& weights, const BatchNorm& norm,
                 const kernels::PendingMap& y);

}  // namespace osprey::nn
