#include "osprey/data/picture_files.h"

#include <algorithm>
#include <filesystem>

#include "text_lines.h"

namespace osprey::data {
namespace fs = std::filesystem;

bool is_picture_name(const std::string& name) {
  const std::string ending = lower_case(fs::path(name).extension().string());
  return std::find(kPictureEndings.begin(), kPictureEndings.end(), ending) != kPictureEndings.end();
}

std::vector<std::string> pictures_below(const std::string& folder) {
  std::vector<std::string> result;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    if (is_picture_name(entry.path().string()) && entry.is_regular_file(ignored))
      result.push_back(entry.path().lexically_normal().string());
  }
  std::sort(result.begin(), result.end());
  return result;
}

}  // namespace osprey::data
