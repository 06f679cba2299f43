#include "picture_finder.h"

#include <algorithm>
#include <set>
#include <utility>

#include "data/text_lines.h"

namespace osprey::data {
namespace {
namespace fs = std::filesystem;

/// The folder above one, by its name: of a link the folder that it lies in.
fs::path above(const fs::path& folder) {
  const fs::path name = folder.filename();
  return name.empty() || name == "." || name == ".." ? folder / ".." : folder.parent_path();
}

std::vector<fs::path> usual_folders(const std::string& input, const std::string& image_dir,
                                    const std::vector<std::string>& subsets) {
  if (!image_dir.empty()) return {image_dir};
  const fs::path beside = fs::path(input).parent_path();
  std::vector<fs::path> result;
  const auto add = [&](const fs::path& folder) {
    std::error_code error;
    if (folder.empty() || fs::is_directory(folder, error)) result.push_back(folder);
  };
  for (const std::string& subset : subsets)
    for (const fs::path& base : {beside, above(beside)})
      for (const fs::path& folder : {base / "images" / subset, base / "data" / subset, base / subset}) add(folder);
  add(beside);  // "" is where the program runs
  for (const char* name : {"images", "data"})
    for (const fs::path& base : {beside, above(beside)}) add(base / name);
  return result;
}

// Where a picture may lie at any depth, if only one has its name.
std::vector<std::string> folders_with_subsets(const std::string& input, const std::string& image_dir) {
  if (!image_dir.empty()) return {image_dir};
  const fs::path beside = fs::path(input).parent_path();
  std::vector<std::string> result;
  for (const fs::path& base : {beside, above(beside)})
    for (const char* name : {"images", "data"}) result.push_back((base / name).string());
  return result;
}

/// The name of a file, if asked for with that of its folder.
std::string tail_of(const std::string& plain, bool with_folder) {
  const std::string name = fs::path(plain).filename().string(), folder = folder_name(plain);
  return with_folder && !folder.empty() ? folder + "/" + name : name;
}

}  // namespace

std::string with_ending(const std::string& name) { return is_picture_name(name) ? name : name + kPictureEndings[0]; }

PictureFinder::PictureFinder(const std::string& input, const std::string& image_dir,
                             const std::vector<std::string>& subsets)
    : folders_(usual_folders(input, image_dir, subsets)), below_(folders_with_subsets(input, image_dir)) {}

void PictureFinder::expect(const std::string& file_name) {
  const std::string plain = fs::path(slashed(file_name)).lexically_normal().string();
  if (!expected_.insert(plain).second) return;
  const std::string short_tail = tail_of(plain, false), long_tail = tail_of(plain, true);
  ++names_of_tail_[short_tail];
  if (long_tail != short_tail) ++names_of_tail_[long_tail];
}

std::string PictureFinder::find(const std::string& file_name, Problems& problems) const {
  const std::string plain = slashed(file_name);  // some tools write paths of Windows
  const std::string last = tail_of(plain, false), named = folder_name(plain);
  const bool is_shared = named.empty() && !is_only(last);  // "1.png" of a set that has "a/1.png", too
  std::error_code error;
  std::vector<std::string> names{file_name, plain};
  if (is_only(last)) names.push_back(last);
  for (const std::string& name : names)
    for (const fs::path& folder : folders_)
      if (fs::is_regular_file(folder / name, error) && !(is_shared && is_of_another(folder / name)))
        return (folder / name).lexically_normal().string();
  const std::vector<std::string> places = below_.places(plain);
  if (is_shared && places.size() == 1) {
    add_not_taken(plain, places, "pictures of several folders have this name", problems);
    return "";
  }
  std::set<std::string> folders;
  if (!named.empty())
    // "a/train/1.png" and "b/train/1.png" are told apart by their whole paths.
    folders.insert(is_only(tail_of(plain, true)) ? named : fs::path(plain).parent_path().string());
  return only_place(plain, places, folders, problems);
}

std::string PictureFinder::find_any_ending(std::string& file_name, Problems& problems) const {
  const std::string name = std::exchange(file_name, with_ending(file_name));
  if (file_name == name) return find(name, problems);
  std::vector<std::string> endings{""};
  for (const char* ending : kPictureEndings) endings.insert(endings.end(), {ending, upper_case(ending)});
  for (const std::string& ending : endings) {
    Problems not_here;
    if (std::string path = find(name + ending, not_here); !path.empty()) {
      file_name = name + ending;
      return path;
    }
  }
  return find(file_name, problems);
}

/// Whether a picture of the set is found here by its name and that of its folder.
bool PictureFinder::is_of_another(const fs::path& place) const {
  const fs::path normal = place.lexically_normal();
  const std::string tail = tail_of(normal.string(), true);
  if (folder_name(normal.string()).empty() || names_of_tail_.count(tail) == 0) return false;
  std::error_code error;
  const auto folder = std::find_if(folders_.begin(), folders_.end(),
                                   [&](const fs::path& base) { return fs::is_regular_file(base / tail, error); });
  return folder != folders_.end() && (*folder / tail).lexically_normal() == normal;
}

/// Whether no two pictures of the set, in different folders, have this tail.
bool PictureFinder::is_only(const std::string& tail) const {
  const auto found = names_of_tail_.find(tail);
  return found == names_of_tail_.end() || found->second == 1;
}

}  // namespace osprey::data
