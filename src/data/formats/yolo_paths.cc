#include "yolo_paths.h"

#include <algorithm>
#include <filesystem>

#include "data/text_lines.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

// "/set/a.jpg", or "C:/set/a.jpg" of Windows.
bool begins_at_root(const std::string& path) {
  return path.starts_with('/') || (path.size() > 2 && path[1] == ':' && path[2] == '/');
}

// What is left of a path when its first parts are dropped, one after the other; the longest first.
std::vector<std::string> ends_of(const std::string& path) {
  std::vector<std::string> result;
  for (size_t at = path.find('/'); at != std::string::npos; at = path.find('/', at + 1))
    if (at + 1 < path.size() && path[at + 1] != '/') result.push_back(path.substr(at + 1));
  return result;
}

std::string first_there(const std::vector<std::string>& names, const std::vector<std::string>& folders,
                        bool may_be_folder) {
  std::error_code ignored;
  for (const std::string& name : names)
    for (const std::string& folder : folders) {
      const fs::path place = fs::path(folder) / name;  // name alone, where it begins at the root
      if (fs::is_regular_file(place, ignored) || (may_be_folder && fs::is_directory(place, ignored)))
        return place.lexically_normal().string();
    }
  return "";
}

}  // namespace

std::string find_yolo_file(const std::string& spelled, const std::vector<std::string>& folders) {
  const std::string plain = slashed(spelled);
  std::vector<std::string> names{spelled, plain};
  for (std::string& end : ends_of(plain)) names.push_back(std::move(end));
  names.push_back("images/" + fs::path(plain).filename().string());
  return first_there(names, folders, false);
}

std::string find_yolo_place(const std::string& spelled, const std::vector<std::string>& folders) {
  std::string plain = slashed(spelled);
  if (plain.ends_with(".txt")) return find_yolo_file(spelled, folders);  // has the name of one split
  std::vector<std::string> names{spelled, plain};
  const auto add = [&](const std::string& end) {
    const fs::path normal = fs::path(end).lexically_normal();
    if (normal != "images" && normal != "images/") names.push_back(end);
  };
  if (begins_at_root(plain)) {
    for (const std::string& end : ends_of(plain)) add(end);
  } else {
    while (plain.starts_with("../") || plain.starts_with("./")) {
      plain.erase(0, plain.find('/') + 1);
      add(plain);
    }
  }
  return first_there(names, folders, true);
}

std::vector<std::string> label_files(const std::string& picture) {
  const fs::path beside = fs::path(picture).replace_extension(".txt");
  std::vector<fs::path> parts(beside.begin(), beside.end());
  std::vector<std::string> result;
  const auto images = std::find_if(parts.rbegin(), parts.rend(),
                                   [](const fs::path& part) { return part == "images" || part == "JPEGImages"; });
  if (images != parts.rend()) {
    *images = "labels";
    fs::path path;
    for (const fs::path& part : parts) path /= part;
    result.push_back(path.string());
  }
  result.push_back(beside.string());
  return result;
}

}  // namespace osprey::data
