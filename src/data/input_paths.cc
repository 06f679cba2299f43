#include "osprey/data/input_paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <unordered_set>

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

bool file_exists(const std::string& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

/// Files "name-00000-of-00003ending", ...
struct ShardSet {
  std::string name;
  int count = 0;
  std::string ending;

  auto operator<=>(const ShardSet&) const = default;
  std::string pattern() const { return fmt::format("{}-{:?>5}-of-{:05}{}", name, "", count, ending); }
  std::string file(int index) const { return fmt::format("{}-{:05}-of-{:05}{}", name, index, count, ending); }
  std::vector<std::string> files() const {
    std::vector<std::string> result;
    for (int i = 0; i < count; ++i) result.push_back(file(i));
    return result;
  }
  ShardSet in_any_folder() const { return {fs::path(name).filename().string(), count, ending}; }
};

/// What to say of the shards of a set that are not read, if any are.
/// here, anywhere  the indices of those that are read of the set's folder, and of all folders
std::string unread_of(const ShardSet& set, const std::set<int>& here, const std::set<int>& anywhere) {
  const auto is_known = [&](int index) { return anywhere.contains(index) || file_exists(set.file(index)); };
  const int first = !is_known(0) && is_known(set.count) ? 1 : 0;  // some programs count from 1
  int unread = 0, missing = 0, first_missing = 0;
  for (int i = first; i < first + set.count; ++i) {
    if (here.contains(i)) continue;
    if (file_exists(set.file(i)))
      ++unread;
    else if (!anywhere.contains(i) && ++missing == 1)
      first_missing = i;
  }
  std::vector<std::string> result;
  const int there = set.count - missing;
  if (unread > 0)
    result.push_back(
        fmt::format("{} of the {} shards that are there are read; '{}' are all", there - unread, there, set.pattern()));
  if (missing > 0)
    result.push_back(fmt::format("{} of the {} shards '{}' {} not there, the first of them {}", missing, set.count,
                                 set.pattern(), missing == 1 ? "is" : "are", set.file(first_missing)));
  return fmt::format("{}", fmt::join(result, "; "));
}

// What "name@3" stands for; nothing where `path` has no such end.
std::optional<ShardSet> shards_of(const std::string& path) {
  const size_t at = path.rfind('@');
  if (at == std::string::npos || at + 1 == path.size() || path.size() - at > 6) return std::nullopt;
  if (!std::all_of(path.begin() + static_cast<long>(at) + 1, path.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return ShardSet{path.substr(0, at), std::stoi(path.substr(at + 1)), ""};
}

std::vector<std::string> expand(const std::string& path, const std::string& reader) {
  if (path.find("PATH_TO_BE_CONFIGURED") != std::string::npos)
    throw DataError(fmt::format("{}: '{}' is a placeholder: name the record files there", reader, path));
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    throw DataError(fmt::format("{}: '{}' is a directory, not a record file; write '{}' for what is in it", reader,
                                path, (fs::path(path) / "*").string()));
  if (fs::exists(path, ignored)) return {path};
  if (const std::optional<ShardSet> shards = shards_of(path); shards && shards->count > 0) {
    std::vector<std::string> files = shards->files();
    if (const auto missing = std::find_if_not(files.begin(), files.end(), file_exists); missing != files.end())
      throw DataError(fmt::format("{}: '{}': shard {} is missing", reader, path, *missing));
    return files;
  }
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
  static const std::regex shard("(.*)-([0-9]{5})-of-([0-9]{5})([^/]*)");
  std::map<ShardSet, std::set<int>> read, read_anywhere;  // the latter by names without folders
  std::smatch parts;
  for (const std::string& file : files) {
    if (!std::regex_match(file, parts, shard)) continue;
    const ShardSet set{parts[1], std::stoi(parts[3]), parts[4]};
    read[set].insert(std::stoi(parts[2]));
    read_anywhere[set.in_any_folder()].insert(std::stoi(parts[2]));
  }
  std::vector<std::string> result;
  for (const auto& [set, indices] : read)
    if (std::string unread = unread_of(set, indices, read_anywhere[set.in_any_folder()]); !unread.empty())
      result.push_back(std::move(unread));
  return fmt::format("{}", fmt::join(result, "; "));
}

}  // namespace osprey::data
