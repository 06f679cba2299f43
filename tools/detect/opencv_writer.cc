#include <ATen/ATen.h>
#include <fmt/format.h>

#include <opencv2/imgproc.hpp>
#include <opencv2/videoio.hpp>

#include "detect/video.h"
#include "osprey/base/error.h"

namespace osprey::tools {
namespace fs = std::filesystem;
namespace {

/// A name for the file until it is complete, which nothing has yet; absolute, so that FFmpeg takes no part of it for a
/// protocol.
fs::path part_of(const fs::path& file) {
  for (int n = 1;; ++n) {
    fs::path part = fs::absolute(file);
    part.replace_extension(n == 1 ? ".part.mp4" : fmt::format(".part{}.mp4", n));
    if (!fs::exists(part)) return part;
  }
}

class Writer final : public VideoWriter {
 public:
  Writer(const fs::path& file, double frames_per_second, int64_t height, int64_t width)
      : file_(file), part_(part_of(file)) {
    const cv::Size size(static_cast<int>(width), static_cast<int>(height));
    for (const char* codec : {"avc1", "mp4v"})
      if (writer_.open(part_.string(), cv::CAP_FFMPEG, cv::VideoWriter::fourcc(codec[0], codec[1], codec[2], codec[3]),
                       frames_per_second, size))
        return;
    remove();
    throw DataError(fmt::format(
        "{}: a video of {} x {} pixels and {:g} frames per second cannot be written: the folder takes no files, or "
        "this OpenCV lacks FFmpeg with an encoder for H.264 or MPEG-4 (Debian's libopencv-videoio406 has both); leave "
        "--output_dir out for the list alone",
        part_.string(), width, height, frames_per_second));
  }
  ~Writer() override { remove(); }

  void add(const at::Tensor& image) override {
    const at::Tensor whole = image.contiguous();
    const cv::Mat rgb(static_cast<int>(whole.size(0)), static_cast<int>(whole.size(1)), CV_8UC3,
                      whole.data_ptr<uint8_t>());
    cv::Mat bgr;
    cv::cvtColor(rgb, bgr, cv::COLOR_RGB2BGR);
    writer_.write(bgr);
    ++frames_;
  }

  void finish() override {
    writer_.release();  // writes the table of contents; it says nothing of a full disk
    const cv::VideoCapture written(part_.string(), cv::CAP_FFMPEG);
    if (!written.isOpened() || static_cast<int64_t>(written.get(cv::CAP_PROP_FRAME_COUNT)) < frames_)
      throw DataError(file_.string() + ": cannot be written as a whole; is the disk full?");
    fs::rename(part_, file_);
  }

 private:
  void remove() {
    writer_.release();
    std::error_code ignored;
    fs::remove(part_, ignored);
  }

  fs::path file_, part_;
  cv::VideoWriter writer_;
  int64_t frames_ = 0;
};

}  // namespace

std::unique_ptr<VideoWriter> create_video(const fs::path& file, double frames_per_second, int64_t height,
                                          int64_t width) {
  return std::make_unique<Writer>(file, frames_per_second, height, width);
}

}  // namespace osprey::tools
