#pragma once
#include <torch/csrc/jit/api/module.h>

#include <cstdint>
#include <string>

namespace osprey {

/// A served module as the bytes of an ONNX file: the same input (`input_tensor`), outputs and arithmetic.
///
/// served  as served_module() made it; one that was read from a file has lost the shapes of its network
///
/// throws  ConfigError naming what ONNX does not have, among it soft suppression; c10::Error for a form of an operation
///         that no rule thought of
std::string onnx_model(const torch::jit::Module& served, int64_t batch_size);

}  // namespace osprey
