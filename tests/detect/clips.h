#pragma once
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <opencv2/videoio.hpp>
#include <string>
#include <vector>

#include "detect/video.h"

namespace osprey::testing {

/// Writes frames of one colour each: red of frame i is 20 i mod 260, green 0, and blue 250 less red. They are JPEGs,
/// which takes no codec.
inline void write_clip(const std::string& avi_file, int frames, double frames_per_second, int height, int width) {
  cv::VideoWriter writer(avi_file, cv::CAP_OPENCV_MJPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), frames_per_second,
                         {width, height});
  ASSERT_TRUE(writer.isOpened()) << avi_file;
  for (int i = 0; i < frames; ++i) {
    const int red = 20 * i % 260;
    writer.write(cv::Mat(height, width, CV_8UC3, cv::Scalar(250 - red, 0, red)));  // OpenCV has blue first
  }
}

/// All frames of a video.
inline std::vector<at::Tensor> frames_of(const std::string& file) {
  std::vector<at::Tensor> result;
  const auto video = tools::open_video(file);
  while (const auto frame = video->read()) result.push_back(frame->image);
  return result;
}

}  // namespace osprey::testing
