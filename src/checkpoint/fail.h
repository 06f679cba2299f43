#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "osprey/base/error.h"

namespace osprey::checkpoint {

[[noreturn]] inline void fail(const std::filesystem::path& file, const std::string& message) {
  throw CheckpointError(fmt::format("{}: {}", file.string(), message));
}

}  // namespace osprey::checkpoint
