#pragma once
#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/fail.h"
#include "osprey/records/tensorflow_checkpoint.pb.h"

namespace osprey::checkpoint {

/// The message that is the value of a table's key.
///
/// throws  CheckpointError naming both
template <class Message>
Message message_of(const std::filesystem::path& file, std::string_view key, std::string_view value) {
  Message message;
  if (!message.ParseFromArray(value.data(), static_cast<int>(value.size())))
    fail(file, fmt::format("the entry '{}' is damaged", key));
  return message;
}

/// A tensor with a copy of `bytes`.
///
/// throws  CheckpointError naming file and tensor where they do not fit the shape
at::Tensor tensor_of(const std::filesystem::path& file, const std::string& name, const records::TensorShape& shape,
                     c10::ScalarType type, std::string_view bytes);

}  // namespace osprey::checkpoint
