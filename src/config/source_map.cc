#include "osprey/config/source_map.h"

namespace osprey::config {

Origin FieldOrigins::origin(std::string_view path) const {
  while (!path.empty()) {
    if (const Origin* found = find(path)) return *found;
    const size_t cut = path.find_last_of(".[");
    path = path.substr(0, cut == std::string_view::npos ? 0 : cut);
  }
  return {};
}

const Origin* FieldOrigins::find(std::string_view path) const {
  auto found = origins_.find(path);
  return found == origins_.end() ? nullptr : &found->second;
}

void FieldOrigins::erase(const std::string& path) {
  auto below = [&](const std::string& other) {
    return other.compare(0, path.size(), path) == 0 &&
           (other.size() == path.size() || other[path.size()] == '.' || other[path.size()] == '[');
  };
  for (auto entry = origins_.lower_bound(path);
       entry != origins_.end() && entry->first.compare(0, path.size(), path) == 0;)
    entry = below(entry->first) ? origins_.erase(entry) : std::next(entry);
}

}  // namespace osprey::config
