#pragma once
#include <torch/csrc/jit/api/module.h>

namespace osprey {

/// Makes a served network faster on this machine's CPU, before its first run: each convolution gets its weights in the
/// form that its kernel reads, and does the activation behind it as it writes. Those of 3 x 3 over large maps are made
/// by Winograd's tiles, all others by oneDNN. Results change by rounding only; the network can be neither saved nor
/// moved to another device from then on.
///
/// network  the submodule `net` of a served module
/// images   [B, 3, H, W] float32: an input of the network's size, of any content; the network runs on it once
/// throws   c10::Error or std::exception where the network cannot be run
void prepare_for_cpu(const torch::jit::Module& network, const at::Tensor& images);

}  // namespace osprey
