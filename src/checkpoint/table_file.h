#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

namespace osprey::checkpoint {

/// Whether a file is a sorted table in LevelDB's format, by the magic number that it ends with. False for no file.
bool is_table(const std::filesystem::path& file);

/// Hands on the entries of such a file in the order of their keys.
///
/// throws  CheckpointError naming the file: it cannot be read, or a block's checksum is wrong
void for_each_entry(const std::filesystem::path& file,
                    const std::function<void(std::string_view key, std::string_view value)>& action);

}  // namespace osprey::checkpoint
