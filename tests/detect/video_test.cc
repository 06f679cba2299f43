#if __has_include(<opencv2/videoio.hpp>)
#include "detect/video.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <opencv2/videoio.hpp>

#include "detect/clips.h"
#include "detect/drawn_video.h"
#include "osprey/base/error.h"
#include "support/temp_dir.h"

namespace osprey::tools {
namespace {
namespace fs = std::filesystem;

using osprey::testing::frames_of;
using osprey::testing::TempDir;
using osprey::testing::write_clip;
using osprey::testing::write_file;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::Tensor plain(int64_t value, int64_t height = 48, int64_t width = 64) {
  return at::full({height, width, 3}, value, at::kByte);
}

TEST(Video, NamesSayWhatIsOne) {
  for (const char* name : {"a.mp4", "b/C.AVI", "camera:0", "rtsp://host/stream", "x.gif"})
    EXPECT_TRUE(is_video(name)) << name;
  for (const char* name : {"a.jpg", "mp4", "camera", "test.record", "folder/"}) EXPECT_FALSE(is_video(name)) << name;
  const TempDir folder;
  fs::create_directory(folder / "frames.mp4");
  EXPECT_FALSE(is_video(folder / "frames.mp4")) << "a folder";
  EXPECT_EQ(file_of_video("a/b.mp4"), "a/b.mp4");
  EXPECT_EQ(file_of_video("camera:12"), "camera_12");
}

TEST(Video, GivesTheFramesOfAFileWithTheirTimes) {
  const TempDir folder;
  write_clip(folder / "clip.avi", /*frames=*/12, /*frames_per_second=*/10, /*height=*/48, /*width=*/64);
  const auto video = open_video(folder / "clip.avi");
  EXPECT_EQ(video->info().frames_per_second, 10);
  EXPECT_EQ(video->info().promised_frames, 12);
  EXPECT_FALSE(video->info().is_live);
  for (int64_t i = 0; i < 12; ++i) {
    if (i == 4) {
      ASSERT_TRUE(video->skip());
      continue;
    }
    const auto frame = video->read();
    ASSERT_TRUE(frame) << i;
    EXPECT_EQ(frame->index, i);
    EXPECT_NEAR(frame->time_s, 0.1 * static_cast<double>(i), 1e-6);
    ASSERT_EQ(frame->image.sizes(), at::IntArrayRef({48, 64, 3}));
    // What write_clip makes of it, but for what a JPEG leaves of that.
    const at::Tensor color = frame->image.to(at::kFloat).mean(at::IntArrayRef({0, 1}));
    EXPECT_NEAR(color[0].item<float>(), 20 * i, 4) << i;
    EXPECT_NEAR(color[2].item<float>(), 250 - 20 * i, 4) << i;
  }
  EXPECT_FALSE(video->read());
  EXPECT_FALSE(video->skip());
}

TEST(Video, WhatCannotBeReadIsNamed) {
  const TempDir folder;
  EXPECT_THAT([&] { check_video_name(folder / "none.mp4"); }, ThrowsMessage<DataError>(HasSubstr("none.mp4: no such")));
  EXPECT_THAT([&] { check_video_name("camera:"); }, ThrowsMessage<ConfigError>(HasSubstr("camera:0 for the first")));
  EXPECT_THAT([&] { check_video_name("camera:0x"); }, ThrowsMessage<ConfigError>(HasSubstr("camera:0x: ")));
  EXPECT_THAT([&] { check_video_name("camera:-1"); }, ThrowsMessage<ConfigError>(HasSubstr("camera:-1: ")));
  EXPECT_THAT([&] { open_video("camera:63"); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("camera:63"), HasSubstr("/dev/video63"))));
  write_file(folder / "text.mp4", "this is no video");
  write_file(folder / "empty.avi", "");
  cv::VideoWriter(folder / "hollow.avi", cv::CAP_OPENCV_MJPEG, cv::VideoWriter::fourcc('M', 'J', 'P', 'G'), 10,
                  {64, 48});
  for (const char* name : {"text.mp4", "empty.avi", "hollow.avi"})
    EXPECT_THAT([&] { open_video(folder / name); }, ThrowsMessage<DataError>(HasSubstr(folder / name))) << name;
}

TEST(Video, WrittenOnesHaveTheSizeTheRateAndTheColors) {
  const TempDir folder;
  at::Tensor orange = plain(0);
  orange.select(2, 0).fill_(250);
  orange.select(2, 1).fill_(125);
  const auto writer = create_video(folder / "out.mp4", 29.97, 48, 64);
  for (int i = 0; i < 9; ++i) writer->add(orange);
  EXPECT_FALSE(fs::exists(folder / "out.mp4")) << "it is not complete yet";
  writer->finish();
  EXPECT_FALSE(fs::exists(folder / "out.part.mp4"));
  const auto video = open_video(folder / "out.mp4");
  EXPECT_NEAR(video->info().frames_per_second, 29.97, 1e-3);
  EXPECT_EQ(video->info().promised_frames, 9);
  const auto frame = video->read();
  ASSERT_TRUE(frame);
  for (int i = 1; i < 9; ++i)  // also the last one, of which OpenCV does not know the time
    EXPECT_NEAR(video->read()->time_s, i / 29.97, 1e-3);
  ASSERT_EQ(frame->image.sizes(), orange.sizes());
  EXPECT_LT((frame->image.to(at::kFloat) - orange.to(at::kFloat)).abs().max().item<float>(), 12);
}

TEST(Video, WhatIsNotCompleteLeavesWhatWasThere) {
  const TempDir folder;
  write_file(folder / "out.mp4", "of yesterday");
  { create_video(folder / "out.mp4", 25, 48, 64)->add(plain(1)); }
  EXPECT_EQ(fs::file_size(folder / "out.mp4"), 12U);
  EXPECT_FALSE(fs::exists(folder / "out.part.mp4"));
}

TEST(Video, WhatHasTheNameOfAPartIsLeftAlone) {
  const TempDir folder;
  write_file(folder / "out.part.mp4", "somebody's");
  const auto writer = create_video(folder / "out.mp4", 25, 48, 64);
  writer->add(plain(1));
  EXPECT_TRUE(fs::exists(folder / "out.part2.mp4"));
  writer->finish();
  EXPECT_EQ(fs::file_size(folder / "out.part.mp4"), 10U);
  EXPECT_FALSE(fs::exists(folder / "out.part2.mp4"));
  EXPECT_TRUE(fs::exists(folder / "out.mp4"));
}

TEST(Video, AColonInANameIsNoProtocol) {
  const TempDir folder;
  fs::create_directory(folder / "run:1");
  const std::string file = folder / "run:1/2026-11-26T10:20:30.mp4";
  const auto writer = create_video(file, 25, 48, 64);
  writer->add(plain(1));
  writer->finish();
  const fs::path before = fs::current_path();
  fs::current_path(folder / "run:1");
  EXPECT_TRUE(open_video("2026-11-26T10:20:30.mp4")->read());
  fs::current_path(before);
}

TEST(Video, PasswordsAreInNoName) {
  const std::string address = "rtsp://me:secret@10.0.0.5:554/a@b";
  EXPECT_EQ(shown_name(address), "rtsp://10.0.0.5:554/a@b");
  EXPECT_EQ(file_of_video(address), "rtsp___10_0_0_5_554_a_b");
  EXPECT_EQ(shown_name("rtsp://10.0.0.5"), "rtsp://10.0.0.5");
  EXPECT_EQ(shown_name("rtsp://me@10.0.0.5"), "rtsp://10.0.0.5");
  EXPECT_EQ(shown_name("a@b.mp4"), "a@b.mp4");
  EXPECT_LE(file_of_video("http://a/" + std::string(300, 'x')).string().size(), 100U);
}

TEST(Video, WhatCannotBeWrittenSaysWhatToDo) {
  const TempDir folder;
  const auto says_what_to_do =
      ThrowsMessage<DataError>(AllOf(HasSubstr(".part.mp4"), HasSubstr("leave --output_dir out")));
  EXPECT_THAT([&] { create_video(folder / "no/such/folder.mp4", 25, 48, 64); }, says_what_to_do);
  EXPECT_THAT([&] { create_video(folder / "flat.mp4", 25, 1, 64); }, says_what_to_do);
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Video, FramesAreTurnedAsTheFileSays) {
  const TempDir folder;
  {
    const auto writer = create_video(folder / "flat.mp4", 10, 48, 64);
    at::Tensor picture = plain(20);
    picture.slice(1, 0, 32).fill_(230);  // light on the left
    for (int i = 0; i < 5; ++i) writer->add(picture);
    writer->finish();
  }
  // The matrix of the track header, 40 bytes behind the name of that: a quarter turn, as telephones write it.
  std::ifstream in(folder / "flat.mp4", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const size_t matrix = bytes.find("tkhd") + 4 + 40;
  ASSERT_LT(matrix + 16, bytes.size());
  ASSERT_EQ(bytes.substr(matrix, 4), std::string("\0\1\0\0", 4)) << "the identity begins with 1.0";
  bytes.replace(matrix, 20,
                std::string("\0\0\0\0"
                            "\0\1\0\0"
                            "\0\0\0\0"
                            "\xff\xff\0\0"
                            "\0\0\0\0",
                            20));
  write_file(folder / "turned.mp4", bytes);
  const auto frame = open_video(folder / "turned.mp4")->read();
  ASSERT_TRUE(frame);
  ASSERT_EQ(frame->image.sizes(), at::IntArrayRef({64, 48, 3}));
  EXPECT_GT(frame->image.slice(0, 2, 28).to(at::kFloat).mean().item<float>(), 200) << "what was left is above";
  EXPECT_LT(frame->image.slice(0, 36, 62).to(at::kFloat).mean().item<float>(), 50);
}

TEST(DrawnVideo, ShowsEachPictureUntilTheNext) {
  const TempDir folder;
  DrawnVideo drawn(folder / "out.mp4", 10);
  drawn.show(plain(40), 0);
  drawn.show(plain(120), 3);
  drawn.show(plain(200, 96, 128), 4);  // of another size, as streams may change it
  drawn.finish(6);
  std::vector<int64_t> values;
  for (const at::Tensor& frame : frames_of(folder / "out.mp4")) {
    EXPECT_EQ(frame.sizes(), at::IntArrayRef({48, 64, 3}));
    values.push_back(std::lround(frame.to(at::kFloat).mean().item<float>() / 40));
  }
  EXPECT_THAT(values, ElementsAre(1, 1, 1, 3, 5, 5));
}

TEST(DrawnVideo, TheLastPictureIsShownAndWithoutAnyThereIsNoFile) {
  const TempDir folder;
  DrawnVideo(folder / "none.mp4", 10).finish(3);
  EXPECT_FALSE(fs::exists(folder / "none.mp4"));
  DrawnVideo drawn(folder / "one.mp4", 10);
  drawn.show(plain(40), 0);
  drawn.finish(0);
  EXPECT_EQ(frames_of(folder / "one.mp4").size(), 1U);
}

}  // namespace
}  // namespace osprey::tools
#else
#include <gtest/gtest.h>

TEST(Video, IsTested) { GTEST_SKIP() << "OpenCV's module videoio is not installed; scripts/setup.sh does it"; }
#endif
