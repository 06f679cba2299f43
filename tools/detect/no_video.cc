// Takes the place of opencv_*.cc where OpenCV's module for videos is not installed.
#include "detect/video.h"
#include "osprey/base/error.h"

namespace osprey::tools {

void check_video_name(const std::string& path) {
  throw ConfigError(shown_name(path) +
                    ": this program was built without videos and cameras; install OpenCV's module videoio "
                    "(scripts/setup.sh does, Debian: libopencv-videoio-dev) and build again");
}

std::unique_ptr<VideoReader> open_video(const std::string& path) {
  check_video_name(path);
  return nullptr;
}

std::unique_ptr<VideoWriter> create_video(const std::filesystem::path& file, double, int64_t, int64_t) {
  check_video_name(file.string());
  return nullptr;
}

}  // namespace osprey::tools
