#include "osprey/data/picture_files.h"

#include <algorithm>
#include <filesystem>

#include "folder_walk.h"
#include "text_lines.h"

namespace osprey::data {
namespace fs = std::filesystem;

bool is_picture_name(const std::string& name) {
  const std::string ending = lower_case(fs::path(name).extension().string());
  return std::find(kPictureEndings.begin(), kPictureEndings.end(), ending) != kPictureEndings.end();
}

std::vector<std::string> pictures_below(const std::string& folder) {
  std::vector<std::string> result = files_below(folder, [](const fs::path& file) { return is_picture_name(file); });
  for (std::string& file : result) file = fs::path(file).lexically_normal().string();
  return result;
}

}  // namespace osprey::data
