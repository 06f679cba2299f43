#include "split_index.h"

#include <fmt/format.h>

#include <filesystem>
#include <unordered_map>

#include "osprey/base/error.h"

namespace osprey::data {
namespace fs = std::filesystem;

std::vector<std::string> names_of_file(const std::string& file) {
  const fs::path path(file);
  return {path.string(), path.filename().string(), fs::path(path).replace_extension().string(), path.stem().string()};
}

std::vector<int64_t> select_split(const std::string& file, const std::vector<std::vector<std::string>>& names,
                                  Problems& problems) {
  std::unordered_map<std::string, std::vector<int64_t>> by_name;
  for (size_t i = 0; i < names.size(); ++i)
    for (const std::string& name : names[i]) {
      auto& entry = by_name[name];
      if (entry.empty() || entry.back() != static_cast<int64_t>(i)) entry.push_back(static_cast<int64_t>(i));
    }

  std::vector<int64_t> chosen;
  std::vector<bool> taken(names.size(), false);
  for (const std::string& line : read_split(file)) {
    // A line may be a path, or carry a second column ("name  1") as VOC's lists of single classes do.
    std::vector<std::string> spellings = names_of_file(line);
    const size_t column = line.find_first_of(" \t");
    if (column != std::string::npos)
      for (std::string& name : names_of_file(line.substr(0, column))) spellings.push_back(std::move(name));
    auto found = by_name.end();
    for (size_t k = 0; k < spellings.size() && found == by_name.end(); ++k) found = by_name.find(spellings[k]);
    if (found == by_name.end()) {
      problems.add("name(s) in the split list without annotation", line);
      continue;
    }
    for (int64_t index : found->second) {
      if (!taken[static_cast<size_t>(index)]) chosen.push_back(index);
      taken[static_cast<size_t>(index)] = true;
    }
  }
  if (chosen.empty())
    throw DataError(fmt::format("{}: none of its names is among the {} annotated pictures", file, names.size()));
  return chosen;
}

}  // namespace osprey::data
