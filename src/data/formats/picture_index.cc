#include "picture_index.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace osprey::data {
namespace fs = std::filesystem;

std::string folder_name(const std::string& path) {
  const std::string name = fs::path(path).lexically_normal().parent_path().filename().string();
  return name == ".." || name.ends_with(':') ? "" : name;  // "C:" is a drive
}

void PictureIndex::list() const {
  std::unordered_map<std::string, fs::path> real_folders;  // by their names, links and others
  std::set<fs::path> seen, listed;                         // folders and pictures, which may have several names
  std::error_code error;
  for (const std::string& folder : folders_) {
    const fs::path real = fs::canonical(folder, error);
    if (error || !fs::is_directory(real, error) || !seen.insert(real).second) continue;
    for (std::string& path : pictures_below(folder)) {
      const fs::path parent = fs::path(path).parent_path(), name = fs::path(path).filename();
      const auto [known, is_new] = real_folders.try_emplace(parent.string(), parent);
      if (is_new)
        if (fs::path found = fs::canonical(parent, error); !error) known->second = std::move(found);
      if (listed.insert(known->second / name).second) by_name_[name.string()].push_back(std::move(path));
    }
  }
}

std::vector<std::string> PictureIndex::places(const std::string& name) const {
  std::call_once(listed_, [this] { list(); });
  const auto found = by_name_.find(fs::path(name).filename().string());
  if (found == by_name_.end()) return {};
  std::vector<std::string> ending;
  for (const std::string& place : found->second)
    if (place.ends_with("/" + name)) ending.push_back(place);
  return ending.empty() ? found->second : ending;
}

void add_not_taken(const std::string& name, const std::vector<std::string>& places, const std::string& why,
                   Problems& problems) {
  problems.add("picture(s) of the name but in another folder, not taken",
               fmt::format("{}: {} ({})", name, fmt::join(places, ", "), why));
}

std::string only_place(const std::string& name, const std::vector<std::string>& places,
                       const std::set<std::string>& folders, Problems& problems) {
  std::vector<std::string> counting;
  std::copy_if(places.begin(), places.end(), std::back_inserter(counting), [&](const std::string& place) {
    const std::string parent = "/" + fs::path(place).parent_path().string();
    return folders.empty() || std::any_of(folders.begin(), folders.end(),
                                          [&](const std::string& folder) { return parent.ends_with("/" + folder); });
  });
  if (counting.size() == 1) return counting[0];
  if (counting.size() > 1)
    problems.add("picture name(s) that several folders have; --image_dir says which of them counts",
                 fmt::format("{}: {}", name, fmt::join(counting, ", ")));
  else if (!places.empty())
    add_not_taken(name, places, fmt::format("not in {}", fmt::join(folders, " or ")), problems);
  return "";
}

}  // namespace osprey::data
