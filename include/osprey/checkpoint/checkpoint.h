#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace osprey::checkpoint {

/// The name that ends every checkpoint file: "ckpt-<step>.osprey".
inline constexpr const char* kExtension = ".osprey";

/// What a checkpoint file holds: named tensors and named short texts, both in the order of their names.
///
/// Tensors of a training run are named "model/<variable>", "average/<variable>" and "optimizer/<slot>/<variable>",
/// where <variable> is the name given by `models::variables`. The file layout is described in
/// docs/checkpoint_format.md.
struct Checkpoint {
  std::map<std::string, at::Tensor> tensors;      ///< any device; read back on the CPU, contiguous
  std::map<std::string, std::string> attributes;  ///< e.g. "step", "num_classes", "precision"

  /// The attribute as a number; `otherwise` where it is not there.
  int64_t number(const std::string& name, int64_t otherwise) const;
};

/// Writes a checkpoint so that, whatever happens meanwhile, `file` is either what it was before or complete (see
/// AtomicFile). Equal contents give equal bytes.
///
/// throws  DataError with the file and the system's reason
void write(const std::filesystem::path& file, const Checkpoint& content);

/// Reads a checkpoint and verifies every byte of it: the length, the checksum of the header, of each tensor and of the
/// whole.
///
/// throws  CheckpointError that names the file and, where one is damaged, the tensor with the expected and found
///         checksum
Checkpoint read(const std::filesystem::path& file);

}  // namespace osprey::checkpoint
