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

std::string shown_name(const std::string& path) {
  const size_t begin = path.find("://");
  if (begin == std::string::npos) return path;
  const size_t end = path.find('/', begin + 3), at = path.rfind('@', end);
  return at == std::string::npos || at < begin ? path : path.substr(0, begin + 3) + path.substr(at + 1);
}

std::filesystem::path file_of_video(const std::string& path) {
  if (!is_live_video(path)) return path;
  constexpr size_t kLongest = 100;
  std::string name = shown_name(path).substr(0, kLongest);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace osprey::tools
