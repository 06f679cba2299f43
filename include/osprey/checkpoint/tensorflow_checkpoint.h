#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace osprey::checkpoint {

/// The weights of a checkpoint that TensorFlow wrote, without what optimizers keep and without counters.
struct TensorFlowCheckpoint {
  /// By the names that the program gave them, "FeatureExtractor/MobilenetV1/Conv2d_0/weights" or "conv1_conv/kernel";
  /// in TensorFlow's layouts.
  std::map<std::string, at::Tensor> variables;
  std::map<std::string, at::Tensor> averages;  ///< moving averages of variables, by the names of those
  int64_t step = 0;                            ///< global_step, where there is one
};

/// Whether the path is a checkpoint, saved model or graph of TensorFlow: a prefix with `.index`, `.data-*` or `.meta`
/// beside it, one of those files, a checkpoint of format V1, or a folder that holds one.
bool is_tensorflow(const std::filesystem::path& path);

/// What `read_tensorflow` reads where a user means `path`: a prefix ("dir/model.ckpt"), one of its files, a folder,
/// whose newest checkpoint is taken, or a saved model.
///
/// throws  CheckpointError (kUsage): there is no checkpoint that goes with it
std::filesystem::path tensorflow_prefix(const std::filesystem::path& path);

/// Reads a checkpoint of format V2, object-based (TF2) ones included, or V1. Checksums are verified.
/// prefix  of a V2 checkpoint's files, or a V1 file
/// throws CheckpointError naming the file and the tensor: missing, damaged, stored in slices
/// source  tensorflow/core/util/tensor_bundle, tensorflow/core/util/tensor_slice_reader
TensorFlowCheckpoint read_tensorflow(const std::filesystem::path& prefix);

}  // namespace osprey::checkpoint
