#include "osprey/data/input_paths.h"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <unordered_set>
#include <utility>

#include "osprey/base/error.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

std::vector<std::string> glob_files(const std::string& pattern, const std::string& reader) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_TILDE, nullptr, &found);
  std::vector<std::string> files;
  for (size_t i = 0; status == 0 && i < found.gl_pathc; ++i) {
    std::error_code ignored;
    if (!fs::is_directory(found.gl_pathv[i], ignored)) files.emplace_back(found.gl_pathv[i]);
  }
  ::globfree(&found);
  if (status == GLOB_ABORTED) throw DataError(fmt::format("{}: cannot read the folder of '{}'", reader, pattern));
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  std::sort(files.begin(), files.end());
  return files;
}

// "name@3" -> name-00000-of-00003, ...; nothing where `path` has no such end.
std::vector<std::string> shard_names(const std::string& path) {
  const size_t at = path.rfind('@');
  if (at == std::string::npos || at + 1 == path.size() || path.size() - at > 6) return {};
  if (!std::all_of(path.begin() + static_cast<long>(at) + 1, path.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return {};
  std::vector<std::string> names;
  const int count = std::stoi(path.substr(at + 1));
  for (int i = 0; i < count; ++i) names.push_back(fmt::format("{}-{:05}-of-{:05}", path.substr(0, at), i, count));
  return names;
}

std::vector<std::string> expand(const std::string& path, const std::string& reader) {
  if (path.find("PATH_TO_BE_CONFIGURED") != std::string::npos)
    throw DataError(fmt::format("{}: '{}' is a placeholder: name the record files there", reader, path));
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw DataError(fmt::format("{}: '{}' is a directory, not a record file; write '{}' for what is in it", reader,
                                path, (fs::path(path) / "*").string()));
  if (fs::exists(path, ignored)) return {path};
  std::vector<std::string> shards = shard_names(path);
  for (const std::string& shard : shards)
    if (!fs::exists(shard, ignored)) throw DataError(fmt::format("{}: '{}': shard {} is missing", reader, path, shard));
  if (!shards.empty()) return shards;
  return glob_files(path, reader);
}

}  // namespace

std::vector<std::string> expand_input_paths(const std::vector<std::string>& paths, const std::string& reader) {
  if (paths.empty()) throw DataError(reader + ": 0 files match: no input path is given");
  std::vector<std::string> files;
  std::unordered_set<std::string> seen;
  std::string missing;
  for (const std::string& path : paths) {
    const std::vector<std::string> found = expand(path, reader);
    if (found.empty()) missing += fmt::format("{}{}: 0 files match '{}'", missing.empty() ? "" : "\n", reader, path);
    for (const std::string& file : found)
      if (seen.insert(file).second) files.push_back(file);
  }
  if (!missing.empty()) throw DataError(missing);
  return files;
}

std::string unread_shards(const std::vector<std::string>& files) {
  static const std::regex shard("(.*)-[0-9]{5}-of-([0-9]{5}[^/]*)");
  std::map<std::pair<std::string, std::string>, size_t> read;  // by name and number of shards
  std::smatch parts;
  for (const std::string& file : files)
    if (std::regex_match(file, parts, shard)) ++read[{parts[1].str(), parts[2].str()}];
  std::string result;
  for (const auto& [set, count] : read) {
    const auto& [name, shards] = set;
    const std::string pattern = fmt::format("{}-{}-of-{}", name, std::string(5, '?'), shards);
    glob_t found{};
    const size_t there = ::glob(pattern.c_str(), 0, nullptr, &found) == 0 ? found.gl_pathc : 0;
    ::globfree(&found);
    if (there > count)
      result += fmt::format("{}{} of the {} shards that are there are read; '{}' are all", result.empty() ? "" : "; ",
                            count, there, pattern);
  }
  return result;
}

}  // namespace osprey::data
