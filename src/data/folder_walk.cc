#include "folder_walk.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

namespace osprey::data {
namespace fs = std::filesystem;
namespace {

/// Of a link what it leads to. Of others the list of the folder says what they are, so that no file is asked for it.
fs::file_type type_of(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.is_symlink(error)) return entry.status(error).type();
  if (entry.is_directory(error)) return fs::file_type::directory;
  return entry.is_regular_file(error) ? fs::file_type::regular : fs::file_type::unknown;
}

}  // namespace

void for_each_below(const fs::path& folder, const std::function<void(const fs::path&, fs::file_type)>& call,
                    Links links) {
  std::set<fs::path> entered;  // by their names without links
  std::deque<fs::path> folders{folder}, linked;
  while (!folders.empty() || !linked.empty()) {
    std::deque<fs::path>& waiting = folders.empty() ? linked : folders;
    const fs::path current = std::move(waiting.front());
    waiting.pop_front();
    std::error_code error;
    const fs::path real = fs::canonical(current, error);
    if (!error && !entered.insert(real).second) continue;
    std::vector<fs::path> inner, inner_linked;
    fs::directory_iterator entry(current, fs::directory_options::skip_permission_denied, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const fs::file_type type = type_of(*entry);
      call(entry->path(), type);
      std::error_code ignored;
      if (type == fs::file_type::directory)
        (entry->is_symlink(ignored) ? inner_linked : inner).push_back(entry->path());
    }
    if (error && current == folder) throw fs::filesystem_error("cannot list the folder", folder, error);
    if (links == Links::kPassedOver) inner_linked.clear();
    for (auto [found, queue] : {std::pair{&inner, &folders}, std::pair{&inner_linked, &linked}}) {
      std::sort(found->begin(), found->end());
      queue->insert(queue->end(), found->begin(), found->end());
    }
  }
}

std::vector<std::string> files_below(const fs::path& folder, const std::function<bool(const fs::path&)>& is_wanted,
                                     Links links) {
  std::vector<std::string> result;
  for_each_below(
      folder,
      [&](const fs::path& path, fs::file_type type) {
        if (type == fs::file_type::regular && is_wanted(path)) result.push_back(path.string());
      },
      links);
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace osprey::data
