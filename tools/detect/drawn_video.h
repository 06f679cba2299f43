#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>

#include "detect/video.h"

namespace osprey::tools {

/// A video of the frames that were looked at, with the length and the frame rate of the one they are from: each is
/// shown until the next.
class DrawnVideo {
 public:
  DrawnVideo(std::filesystem::path file, double frames_per_second)
      : file_(std::move(file)), frames_per_second_(frames_per_second) {}

  /// picture  [H, W, 3] uint8 RGB; the size of the first is that of the video
  /// place    where in the video it begins, in frames; no lower than that of the one before
  void show(const at::Tensor& picture, int64_t place);

  /// length  in frames; the last picture is shown until there, and for one frame at least
  void finish(int64_t length);

 private:
  void fill(int64_t length);

  std::filesystem::path file_;
  double frames_per_second_;
  std::unique_ptr<VideoWriter> writer_;
  at::Tensor shown_;
  int64_t written_ = 0;
};

}  // namespace osprey::tools
