#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

/// The control groups (v2) that this process lies in, where a container's limits stand.
namespace osprey {

/// Their folders, the innermost first.
std::vector<std::filesystem::path> control_groups();

/// The number that stands in a file, or after a key in it; `otherwise` where there is none ("max", no such file).
int64_t number_in(const std::filesystem::path& file, const std::string& key, int64_t otherwise);

}  // namespace osprey
