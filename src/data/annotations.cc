#include "osprey/data/annotations.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_set>

#include "osprey/base/error.h"

namespace osprey::data {

void Problems::add(const std::string& kind, const std::string& place) {
  constexpr size_t kShown = 3;
  const std::lock_guard lock(mutex_);
  auto& [count, first] = kinds_[kind];
  if (++count <= static_cast<int64_t>(kShown)) first.push_back(place);
}

int64_t Problems::count(const std::string& beginning) const {
  const std::lock_guard lock(mutex_);
  int64_t total = 0;
  for (const auto& [kind, entry] : kinds_)
    if (kind.rfind(beginning, 0) == 0) total += entry.first;
  return total;
}

std::vector<std::string> Problems::lines() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  for (const auto& [kind, entry] : kinds_) {
    const auto& [count, first] = entry;
    result.push_back(fmt::format("{} {}: {}{}", count, kind, fmt::join(first, "; "),
                                 count > static_cast<int64_t>(first.size()) ? "; ..." : ""));
  }
  return result;
}

std::vector<std::string> read_split(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw DataError(fmt::format("{}: cannot open: {}", file, std::strerror(errno)));
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    if (seen.insert(line).second) names.push_back(line);
  }
  if (names.empty()) throw DataError(file + ": names no pictures");
  return names;
}

}  // namespace osprey::data
