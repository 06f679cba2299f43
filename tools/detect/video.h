#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace osprey::tools {

/// Whether a path names a video: a file by its ending, "camera:0" (the first camera of the machine), or the address of
/// a stream ("rtsp://...").
bool is_video(const std::string& path);
/// Whether it is a camera or a stream.
bool is_live_video(const std::string& path);

/// What a video is called in lists and messages: its path, of a stream without user and password.
std::string shown_name(const std::string& path);

/// A name for a file that is made of a video: its path, or for a camera or stream the letters and digits of what it was
/// called.
std::filesystem::path file_of_video(const std::string& path);

/// Looks at the name of a video before the work.
/// throws  DataError: no such file; ConfigError: a camera without a number, or this program was built without video
void check_video_name(const std::string& path);

/// What is known of a video before it is read.
struct VideoInfo {
  std::string path;
  bool is_live = false;           ///< a camera or stream: frames come when they come, and an end is a failure
  double frames_per_second = 25;  ///< average of a file, or what a camera promises
  int64_t promised_frames = 0;    ///< that a file says to have, for some formats an estimate; 0: unknown
};

/// One picture of a video.
struct Frame {
  at::Tensor image;   ///< [H, W, 3] uint8 RGB, upright
  int64_t index = 0;  ///< from 0; those that were skipped count
  double time_s = 0;  ///< since the beginning, as the file says, or since the first frame of what is live; where a
                      ///< file does not say, as of its last frames, at the pace of those before
};

/// Gives a video frame by frame.
class VideoReader {
 public:
  virtual ~VideoReader() = default;
  virtual const VideoInfo& info() const = 0;
  /// The next frame; nothing at the end.
  virtual std::optional<Frame> read() = 0;
  /// Passes over a frame; false at the end.
  virtual bool skip() = 0;
};

/// Makes a file of pictures.
class VideoWriter {
 public:
  virtual ~VideoWriter() = default;  ///< removes what is not complete
  /// image  [H, W, 3] uint8 RGB of the size that was asked for
  virtual void add(const at::Tensor& image) = 0;
  /// Gives the file its name.
  /// throws  DataError where not all of it reached the disk
  virtual void finish() = 0;
};

/// path    as `check_video_name` takes it
/// throws  DataError: no such camera, not a video, no frame in it
std::unique_ptr<VideoReader> open_video(const std::string& path);

/// An .mp4 file without sound, as H.264 or, where there is no encoder for that, as MPEG-4.
///
/// file           is called "<name>.part.mp4", or ".part2.mp4" where there is one, until it is complete, and then
///                replaces what was there
/// height, width  >= 2; of an odd one the last row or column is left out
/// throws         DataError: cannot be written, or no encoder is there
std::unique_ptr<VideoWriter> create_video(const std::filesystem::path& file, double frames_per_second, int64_t height,
                                          int64_t width);

}  // namespace osprey::tools
