#include "checkpoint/index_file.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>

namespace osprey::checkpoint {

std::string IndexFile::text() const {
  std::string result = fmt::format("model_checkpoint_path: \"{}\"\n", newest);
  for (const Line& line : all) result += fmt::format("all_model_checkpoint_paths: \"{}\"\n", line.name);
  for (const Line& line : all) result += fmt::format("all_model_checkpoint_timestamps: {:.3f}\n", line.timestamp);
  if (last_preserved) result += fmt::format("last_preserved_timestamp: {:.3f}\n", *last_preserved);
  return result;
}

IndexFile read_index(const std::filesystem::path& folder) {
  IndexFile index;
  std::ifstream in(folder / "checkpoint");
  size_t timestamps = 0;
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, colon);
    std::string value = line.substr(colon + 2);
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    if (key == "model_checkpoint_path") index.newest = value;
    if (key == "all_model_checkpoint_paths") index.all.push_back({value, 0});
    if (key == "all_model_checkpoint_timestamps" && timestamps < index.all.size())
      index.all[timestamps++].timestamp = std::strtod(value.c_str(), nullptr);
    if (key == "last_preserved_timestamp") index.last_preserved = std::strtod(value.c_str(), nullptr);
  }
  return index;
}

}  // namespace osprey::checkpoint
