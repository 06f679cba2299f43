#pragma once
#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace osprey {

struct Calibration;

/// A copy of a network, as `traced_network` gives it, that can be rounded to 8 bits: nothing is changed in place, and
/// activations of several steps, which runtimes for 8 bits round between, are these steps.
std::shared_ptr<torch::jit::Graph> quantizable(torch::jit::Graph& network);

/// Rounds a network to 8 bits after its training, by fake_quantize operations of libtorch: the weights of convolutions
/// by a range for each channel of the result, and by one range each what `rounded_values` names. What is computed from
/// the results of the last convolutions, such as scores and boxes, is not rounded.
///
/// Steps are no finer than runtimes can compute with: those of a result than a small share of what is multiplied or
/// added up, those of weights than a bias of 32 bits takes.
///
/// network      of the calibrated model, as `traced_network` gives it
/// source       Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference: A whitepaper", 2018,
///              section 3.1
std::shared_ptr<torch::jit::Graph> quantized(torch::jit::Graph& network, const Calibration& calibration);

}  // namespace osprey
