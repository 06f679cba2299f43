#include <algorithm>
#include <array>
#include <cctype>

#include "detect/video.h"

namespace osprey::tools {
namespace {

constexpr std::array kVideoEndings = {".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg",   ".mpeg", ".wmv",
                                      ".flv", ".3gp", ".ts",  ".mts", ".ogv", ".mjpg", ".mjpeg", ".gif"};

}  // namespace

bool is_live_video(const std::string& path) {
  return path.starts_with("camera:") || path.find("://") != std::string::npos;
}

bool is_video(const std::string& path) {
  if (is_live_video(path)) return true;
  std::string ending = std::filesystem::path(path).extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return !std::filesystem::is_directory(path) &&
         std::find(kVideoEndings.begin(), kVideoEndings.end(), ending) != kVideoEndings.end();
}

std::filesystem::path file_of_video(const std::string& path) {
  if (!is_live_video(path)) return path;
  std::string name = path;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace osprey::tools
