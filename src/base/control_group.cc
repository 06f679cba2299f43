#include "base/control_group.h"

#include <fstream>

namespace osprey {

std::vector<std::filesystem::path> control_groups() {
  const std::filesystem::path root = "/sys/fs/cgroup";
  std::ifstream in("/proc/self/cgroup");
  std::filesystem::path group;
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::/")) group = root / line.substr(4);
  std::vector<std::filesystem::path> result;
  for (; group.native().size() >= root.native().size(); group = group.parent_path()) result.push_back(group);
  return result;
}

int64_t number_in(const std::filesystem::path& file, const std::string& key, int64_t otherwise) {
  std::ifstream in(file);
  int64_t number = 0;
  for (std::string word; !key.empty() && word != key && in >> word;) {
  }
  return in >> number ? number : otherwise;
}

}  // namespace osprey
