#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <charconv>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "detect/video.h"
#include "osprey/base/clock.h"
#include "osprey/base/error.h"

namespace osprey::tools {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kCamera = "camera:";

int camera_number(const std::string& path) {
  int number = -1;
  const char* const end = path.data() + path.size();
  const auto [stop, error] = std::from_chars(path.data() + kCamera.size(), end, number);
  if (error != std::errc{} || stop != end || number < 0)
    throw ConfigError(path + ": a camera is named by its number, camera:0 for the first (/dev/video0)");
  return number;
}

/// Opens what a path names and gets the first frame ready.
cv::VideoCapture open_capture(const std::string& path) {
  cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_ERROR);  // what cannot be opened is said here
  cv::VideoCapture capture;
  if (path.starts_with(kCamera)) {
    const int number = camera_number(path);
    if (!capture.open(number, cv::CAP_V4L2) && !capture.open(number))
      throw DataError(fmt::format("{}: cannot be opened: {}", path,
                                  fs::exists(fmt::format("/dev/video{}", number))
                                      ? "it is in use, or you may not read it (group video)"
                                      : fmt::format("there is no /dev/video{}", number)));
  } else {
    // FFmpeg takes what precedes a colon for a protocol.
    const std::string place = is_live_video(path) ? path : fs::absolute(path).string();
    if (!capture.open(place, cv::CAP_FFMPEG) && !capture.open(place, cv::CAP_OPENCV_MJPEG))
      throw DataError(shown_name(path) + (is_live_video(path)
                                              ? ": cannot be opened: nobody answers, or it is no video"
                                              : ": cannot be opened as a video: not one, damaged, cut short, or of an "
                                                "unknown codec"));
  }
  if (!capture.grab()) throw DataError(shown_name(path) + ": no frame of it can be read");
  return capture;
}

/// Takes the turning of frames from OpenCV, which does it by itself, or does not (4.11), or the wrong way round (4.6:
/// opencv/opencv#22088).
/// returns  by how many quarters, clockwise, frames have to be turned
int64_t quarter_turns(cv::VideoCapture& capture) {
  capture.set(cv::CAP_PROP_ORIENTATION_AUTO, 0);
  const auto quarters = static_cast<int64_t>(capture.get(cv::CAP_PROP_ORIENTATION_META)) / 90;
  constexpr bool kWrongWay = CV_VERSION_MAJOR == 4 && CV_VERSION_MINOR == 6;
  return kWrongWay ? -quarters : quarters;
}

class Reader final : public VideoReader {
 public:
  explicit Reader(const std::string& path)
      : capture_(open_capture(path)), quarter_turns_(quarter_turns(capture_)), start_(now()) {
    info_.path = shown_name(path);
    info_.is_live = is_live_video(path);
    const double rate = capture_.get(cv::CAP_PROP_FPS), frames = capture_.get(cv::CAP_PROP_FRAME_COUNT);
    if (rate > 0 && rate <= 1000)
      info_.frames_per_second = rate;
    else
      SPDLOG_WARN("{}: names no frame rate; {} frames per second are assumed", info_.path, info_.frames_per_second);
    frame_s_ = 1 / info_.frames_per_second;
    if (!info_.is_live && frames > 0) info_.promised_frames = static_cast<int64_t>(frames);
  }

  const VideoInfo& info() const override { return info_; }

  bool skip() override {
    if (!ready_ && !capture_.grab()) return false;
    ready_ = false;
    ++next_;
    return true;
  }

  std::optional<Frame> read() override {
    if (!ready_ && !capture_.grab()) return std::nullopt;
    ready_ = true;
    cv::Mat bgr;
    if (!capture_.retrieve(bgr) || bgr.empty()) return std::nullopt;
    Frame frame{.image = at::empty({bgr.rows, bgr.cols, 3}, at::kByte), .index = next_};
    frame.time_s = time_s();
    cv::Mat rgb(bgr.rows, bgr.cols, CV_8UC3, frame.image.data_ptr<uint8_t>());
    cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
    if (quarter_turns_ != 0) frame.image = at::rot90(frame.image, -quarter_turns_).contiguous();
    skip();
    return frame;
  }

 private:
  /// Of the frame that was grabbed. Some files give no times, or none for their last frames, which OpenCV says as 0.
  double time_s() {
    const double said_s = info_.is_live ? now() - start_ : capture_.get(cv::CAP_PROP_POS_MSEC) / 1000;
    const auto passed = static_cast<double>(next_ - timed_);
    if (passed > 0 && said_s > time_s_) frame_s_ = (said_s - time_s_) / passed;
    time_s_ += frame_s_ * passed;
    timed_ = next_;
    return time_s_;
  }

  VideoInfo info_;
  cv::VideoCapture capture_;
  int64_t quarter_turns_;
  double start_;
  bool ready_ = true;  ///< the next frame has been grabbed
  int64_t next_ = 0;
  double time_s_ = 0;   ///< of frame timed_, the last that was read
  double frame_s_ = 0;  ///< that the frames up to it took, each
  int64_t timed_ = 0;
};

}  // namespace

void check_video_name(const std::string& path) {
  if (path.starts_with(kCamera))
    camera_number(path);
  else if (!is_live_video(path) && !fs::exists(path))
    throw DataError(path + ": no such file or folder");
}

std::unique_ptr<VideoReader> open_video(const std::string& path) { return std::make_unique<Reader>(path); }

}  // namespace osprey::tools
