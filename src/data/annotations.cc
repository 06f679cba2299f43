#include "osprey/data/annotations.h"

#include <fmt/format.h>

#include <unordered_set>

#include "osprey/base/error.h"
#include "text_lines.h"

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
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const std::string& line : text_lines(file))
    if (std::string name = without_blanks(line); !name.empty() && seen.insert(name).second)
      names.push_back(std::move(name));
  if (names.empty()) throw DataError(file + ": names no pictures");
  return names;
}

}  // namespace osprey::data
