#include "double_names.h"

#include <fmt/format.h>

namespace osprey::data {

void count_double_names(const std::map<int64_t, std::string>& names, const std::string& file, Problems& problems) {
  std::map<std::string, int64_t> id_of_name;
  for (const auto& [id, name] : names) {
    if (name.empty()) continue;
    if (const auto [first, is_new] = id_of_name.emplace(name, id); !is_new)
      problems.add("class(es) taken for another of the same name",
                   fmt::format("{}: '{}' is class {} and class {}", file, name, first->second, id));
  }
}

}  // namespace osprey::data
