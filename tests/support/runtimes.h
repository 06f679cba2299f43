#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace osprey::testing {

// Programs of others that run exported models, in the Python environment that scripts/setup.sh --tests makes.

/// Whether ONNX Runtime is there.
bool has_onnx_runtime();

/// Use: if (!has_onnx_runtime()) GTEST_SKIP() << kNoOnnxRuntime;
inline constexpr const char* kNoOnnxRuntime = "no ONNX Runtime: scripts/setup.sh --tests makes the Python environment";

/// What ONNX Runtime makes of inputs, by the names that the model gives them.
///
/// model   the bytes of an ONNX file
/// inputs  uint8, int64, float32 or bool
/// throws  std::runtime_error where it cannot load or run the model; what it says is on stderr
std::map<std::string, at::Tensor> run_onnx(const std::string& model, const std::map<std::string, at::Tensor>& inputs);

/// The same for LiteRT, which runs files for TensorFlow Lite.
bool has_tflite_runtime();
inline constexpr const char* kNoTfliteRuntime = "no LiteRT: scripts/setup.sh --tests makes the Python environment";
std::map<std::string, at::Tensor> run_tflite(const std::string& model, const std::map<std::string, at::Tensor>& inputs);

}  // namespace osprey::testing
