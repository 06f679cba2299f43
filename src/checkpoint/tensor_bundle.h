#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace osprey::checkpoint {

/// What a checkpoint of TensorFlow's format V2 holds.
struct TensorBundle {
  std::map<std::string, at::Tensor> tensors;  ///< by their keys; what is no number is left out
  std::string object_graph;  ///< of an object-based (TF2) one, a serialized TrackableObjectGraph; else empty
};

/// Reads <prefix>.index and <prefix>.data-*-of-*, and verifies the checksums of both.
///
/// throws  CheckpointError naming the file and the tensor: missing, damaged, of a machine with the other order of
///         bytes, stored in slices
TensorBundle read_bundle(const std::filesystem::path& prefix);

}  // namespace osprey::checkpoint
