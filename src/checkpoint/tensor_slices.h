#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

namespace osprey::checkpoint {

/// The tensors of a checkpoint of TensorFlow's format V1, which is one file, by their names; of element types that need
/// fewer than 16 bits none.
///
/// throws  CheckpointError naming the file and the tensor: damaged, stored in slices
std::map<std::string, at::Tensor> read_slices(const std::filesystem::path& file);

}  // namespace osprey::checkpoint
