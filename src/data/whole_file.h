#pragma once
#include <optional>
#include <string>

namespace osprey::data {

/// The bytes of a file; nothing, with errno set, where it cannot be read.
std::optional<std::string> bytes_of_file(const std::string& path);

}  // namespace osprey::data
