#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace osprey::testing {

/// Writes any table of LevelDB's format.
void write_table(const std::filesystem::path& file, const std::map<std::string, std::string>& entries);

struct TensorFlowVariable {
  std::string name;
  at::Tensor values;  ///< float32
  std::string key;    ///< of an object-based checkpoint; empty: the name
};

/// Writes a checkpoint of TensorFlow's format V2; where variables have keys, with an object graph.
void write_tensorflow(const std::filesystem::path& prefix, const std::vector<TensorFlowVariable>& variables);

}  // namespace osprey::testing
