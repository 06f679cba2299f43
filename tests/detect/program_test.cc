#if __has_include(<opencv2/videoio.hpp>)
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "detect/clips.h"
#include "osprey/data/image_codec.h"
#include "support/temp_dir.h"

namespace osprey::testing {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The program, with a model that was trained for two steps and so finds something anywhere, in a folder with clip.avi.
class DetectVideos : public ::testing::Test {
 public:
  static void SetUpTestSuite() {
    model_ = new TempDir;
    ASSERT_EQ(
        std::system(fmt::format("cd '{0}' && '{1}/create_records' --format shapes --num_images 4 --label_map "
                                "data/label_map.pbtxt --output data/train.record >log 2>&1 && cp data/train.record "
                                "data/test.record && '{1}/train_detector' --pipeline_config '{2}' --data_dir data "
                                "--model_dir run --num_train_steps 2 --train_batch_size 2 >>log 2>&1 && "
                                "'{1}/export_model' --pipeline_config run/pipeline.config --checkpoint run "
                                "--output_dir exported --noonnx --batch_size 2 --parity_images 1 >>log 2>&1",
                                model_->path().string(), kPrograms, kConfig)
                        .c_str()),
        0)
        << text_of(*model_ / "log");
  }
  static void TearDownTestSuite() { delete model_; }

 protected:
  void SetUp() override { write_clip(folder_ / "clip.avi", 13, 10, 96, 128); }

  /// The exit code of detect; said_ becomes what it says, on stdout first.
  int detect(const std::string& arguments) {
    const int status =
        std::system(fmt::format("cd '{}' && '{}/detect' --device cpu --model '{}' --min_score 0 {} >out 2>err",
                                folder_.path().string(), kPrograms, *model_ / "exported", arguments)
                        .c_str());
    said_ = text_of(folder_ / "out") + text_of(folder_ / "err");
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::vector<nlohmann::json> lines(const std::string& file) const {
    std::vector<nlohmann::json> result;
    std::ifstream in(folder_ / file);
    for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
    return result;
  }

  static constexpr const char* kPrograms = OSPREY_BINARY_DIR "/bin";
  static constexpr const char* kConfig = OSPREY_SOURCE_DIR "/configs/quickstart.config";
  static TempDir* model_;
  TempDir folder_;
  std::string said_;
};

TempDir* DetectVideos::model_ = nullptr;

TEST_F(DetectVideos, FindsOnFramesWhatItFindsOnTheirPictures) {
  ASSERT_EQ(detect("--output_dir drawn clip.avi"), 0) << said_;
  const auto found = lines("out");
  ASSERT_EQ(found.size(), 13U);
  const std::vector<at::Tensor> frames = frames_of(folder_ / "clip.avi");
  ASSERT_EQ(frames.size(), 13U);
  for (size_t i = 0; i < frames.size(); ++i)
    write_file(folder_ / fmt::format("pictures/{:02}.png", i), data::encode_png(frames[i]));
  ASSERT_EQ(detect("--output_dir drawn pictures"), 0) << said_;
  const auto on_pictures = nlohmann::json::parse(text_of(folder_ / "out"));
  ASSERT_EQ(on_pictures.size(), 13U);
  for (size_t i = 0; i < 13; ++i) {
    EXPECT_EQ(found[i].at("file"), "clip.avi");
    EXPECT_EQ(found[i].at("frame"), i);
    EXPECT_DOUBLE_EQ(found[i].at("time_s").get<double>(), static_cast<double>(i) / 10);
    EXPECT_FALSE(found[i].at("detections").empty());
    EXPECT_EQ(found[i].at("detections"), on_pictures[i].at("detections")) << i;
  }
  const auto drawn = tools::open_video(folder_ / "drawn/clip.mp4");
  EXPECT_EQ(drawn->info().frames_per_second, 10);
  const std::vector<at::Tensor> pictures = frames_of(folder_ / "drawn/clip.mp4");
  ASSERT_EQ(pictures.size(), 13U);
  for (size_t i = 0; i < 13; ++i) {  // each is the frame with its boxes, but for what the codec leaves of that
    ASSERT_EQ(pictures[i].sizes(), frames[i].sizes());
    const at::Tensor drawn_jpeg = data::decode_image(text_of(folder_ / fmt::format("drawn/{:02}.jpg", i)));
    const auto off_by = [&](const at::Tensor& other) {
      return (pictures[i].to(at::kFloat) - other.to(at::kFloat)).abs().mean().item<float>();
    };
    EXPECT_LT(off_by(drawn_jpeg), 12) << i;
    EXPECT_GT(off_by(frames[i]), 2 * off_by(drawn_jpeg)) << i;
  }
}

TEST_F(DetectVideos, SomeFramesOnlyAndTilesGoTogether) {
  ASSERT_EQ(detect("--tile_size 64 --every_n_frames 4 --max_frames 3 --json list --output_dir drawn clip.avi"), 0)
      << said_;
  const auto found = lines("list");
  ASSERT_EQ(found.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i].at("frame"), 4 * i);
  EXPECT_EQ(frames_of(folder_ / "drawn/clip.mp4").size(), 9U) << "frames 0 to 8, each shown until the next";
  EXPECT_THAT(said_, AllOf(HasSubstr("on 3 frames"), HasSubstr("frames/s")));
}

TEST_F(DetectVideos, AListCalledMinusIsOnStdout) {
  ASSERT_EQ(detect("--max_frames 3 --json - clip.avi"), 0) << said_;
  EXPECT_EQ(lines("out").size(), 3U);
  EXPECT_FALSE(fs::exists(folder_ / "-"));
}

TEST_F(DetectVideos, OneThatCannotBeReadIsNamedAndTheOthersGoOn) {
  const std::string whole = text_of(folder_ / "clip.avi");
  write_file(folder_ / "cut.avi", whole.substr(0, whole.size() / 2));
  write_file(folder_ / "text.mp4", "this is no video");
  ASSERT_EQ(detect("text.mp4 cut.avi clip.avi camera:63"), 3) << said_;
  EXPECT_THAT(said_,
              AllOf(HasSubstr("left out: text.mp4: cannot be opened as a video"), HasSubstr("cut.avi: ends after "),
                    HasSubstr(" of 13 frames"), HasSubstr("left out: camera:63: ")));
  const auto found = lines("out");
  ASSERT_GT(found.size(), 13U);
  EXPECT_EQ(found.front().at("file"), "cut.avi");
  EXPECT_EQ(found.back().at("file"), "clip.avi");
  EXPECT_EQ(found.back().at("frame"), 12);
}

TEST_F(DetectVideos, WhatDoesNotGoTogetherIsRefused) {
  write_file(folder_ / "a.png", data::encode_png(at::zeros({8, 8, 3}, at::kByte)));
  for (const auto& [arguments, words] :
       std::vector<std::pair<const char*, const char*>>{{"clip.avi a.png", "two calls"},
                                                        {"--max_images 2 clip.avi", "--max_frames"},
                                                        {"--benchmark 2 clip.avi", "--benchmark"},
                                                        {"--max_frames 2 a.png", "--max_frames"},
                                                        {"--every_n_frames 2 a.png", "--every_n_frames"},
                                                        {"--every_n_frames 0 clip.avi", "--every_n_frames"},
                                                        {"camera:one", "camera:0 for the first"}}) {
    EXPECT_EQ(detect(arguments), 2) << said_;
    EXPECT_THAT(said_, HasSubstr(words)) << arguments;
  }
  EXPECT_EQ(detect("rtsp://user:secret@host/x a.png"), 2);
  EXPECT_THAT(said_, AllOf(HasSubstr("rtsp://host/x is a video"), Not(HasSubstr("secret"))));
  EXPECT_EQ(detect("none.mp4"), 3);
  EXPECT_THAT(said_, HasSubstr("none.mp4: no such file"));
  fs::copy(folder_ / "clip.avi", folder_ / "clip.mp4");
  EXPECT_EQ(detect("--output_dir . clip.avi clip.mp4"), 2);
  EXPECT_THAT(said_, HasSubstr("is an input video"));
  EXPECT_EQ(detect("--json clip.mp4 clip.mp4"), 2);
  EXPECT_THAT(said_, HasSubstr("clip.mp4: is an input"));
  EXPECT_EQ(detect("--json drawn/clip.mp4 --output_dir drawn clip.avi"), 2);
  EXPECT_THAT(said_, HasSubstr("is what --output_dir makes"));
  EXPECT_EQ(text_of(folder_ / "clip.mp4"), text_of(folder_ / "clip.avi"));
}

TEST_F(DetectVideos, ASignalLeavesAVideoThatCanBeShownAndTheListOfItsFrames) {
  write_clip(folder_ / "long.avi", 4000, 10, 96, 128);
  const std::string command = fmt::format(
      "cd '{0}'; '{1}/detect' --device cpu --model '{2}' --json list --output_dir drawn long.avi 2>err & "
      "process=$!; until [ -s '{0}/list' ] || ! kill -0 $process; do sleep 0.05; done; kill -INT $process; wait "
      "$process",
      folder_.path().string(), kPrograms, *model_ / "exported");
  const int status = std::system(command.c_str());
  ASSERT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 130) << text_of(folder_ / "err");
  const size_t frames = frames_of(folder_ / "drawn/long.mp4").size();
  EXPECT_LT(frames, 4000U) << "it went on to the end";
  EXPECT_EQ(frames, lines("list").size());
}

}  // namespace
}  // namespace osprey::testing
#else
#include <gtest/gtest.h>

TEST(DetectVideos, AreTested) { GTEST_SKIP() << "OpenCV's module videoio is not installed; scripts/setup.sh does it"; }
#endif
