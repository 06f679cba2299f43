#include "detect/watch.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "osprey/base/error.h"
#include "osprey/train/signals.h"

namespace osprey::tools {
namespace {

using ::testing::ElementsAre;

/// Pictures of 4 x 6 pixels, all of the number of the frame, ten a second.
class CountingVideo final : public VideoReader {
 public:
  CountingVideo(int64_t length, int64_t promised, bool is_live = false)
      : info_{.path = "counting", .is_live = is_live, .frames_per_second = 10, .promised_frames = promised},
        length_(length) {}
  const VideoInfo& info() const override { return info_; }
  bool skip() override { return next_ < length_ && ++next_ > 0; }
  std::optional<Frame> read() override {
    if (next_ == raise_at) std::raise(SIGTERM);
    if (next_ >= length_) return std::nullopt;
    const int64_t index = next_++;
    return Frame{at::full({4, 6, 3}, index, at::kByte), index, static_cast<double>(index) / 10};
  }
  int64_t next() const { return next_; }

  int64_t raise_at = -1;

 private:
  VideoInfo info_;
  int64_t length_, next_ = 0;
};

/// What was seen of a video: one detection per frame, whose class is what the frame shows.
struct Seen {
  Watched watched;
  std::vector<nlohmann::json> lines;
  std::vector<size_t> batches;

  std::vector<int64_t> of_frames(const char* key) const {
    std::vector<int64_t> result;
    for (const auto& line : lines) result.push_back(line.at(key));
    return result;
  }
  std::vector<int64_t> shown() const {
    std::vector<int64_t> result;
    for (const auto& line : lines) result.push_back(line.at("detections").at(0).at("class_id"));
    return result;
  }
};

Seen see(VideoReader& video, const WatchOptions& options) {
  const train::SignalGuard guard;
  Seen seen;
  const Find find = [&](const std::vector<at::Tensor>& pictures) {
    seen.batches.push_back(pictures.size());
    std::vector<std::vector<Detection>> result;
    for (const at::Tensor& picture : pictures)
      result.push_back({{.box = {0, 0, 1, 1}, .score = 0.5F, .class_id = picture[0][0][0].item<int64_t>()}});
    return result;
  };
  const auto add = [&](const std::string& line) { seen.lines.push_back(nlohmann::json::parse(line)); };
  seen.watched = watch(video, find, options, add, nullptr);
  return seen;
}

TEST(Watch, ListsEachFrameWithItsNumberTimeAndDetections) {
  CountingVideo video(3, 3);
  const Seen seen = see(video, {});
  EXPECT_EQ(seen.watched.frames, 3);
  EXPECT_EQ(seen.watched.detections, 3);
  EXPECT_EQ(seen.watched.early_end, "");
  EXPECT_THAT(seen.of_frames("frame"), ElementsAre(0, 1, 2));
  EXPECT_THAT(seen.shown(), ElementsAre(0, 1, 2));
  EXPECT_EQ(seen.lines[2],
            nlohmann::json::parse(R"({"file": "counting", "frame": 2, "time_s": 0.2, "height": 4, "width": 6,
      "detections": [{"class_id": 2, "class": "", "score": 0.5, "box": [0.0, 0.0, 1.0, 1.0]}]})"));
}

TEST(Watch, BatchesHoldFramesInTheirOrderAndTheLastIsWhatIsLeft) {
  CountingVideo video(7, 7);
  const Seen seen = see(video, {.batch_size = 3});
  EXPECT_THAT(seen.batches, ElementsAre(3, 3, 1));
  EXPECT_THAT(seen.shown(), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(Watch, EveryNthFrameIsLookedAtFromTheFirstOn) {
  CountingVideo video(10, 10);
  const Seen seen = see(video, {.every_n_frames = 4, .batch_size = 2});
  EXPECT_THAT(seen.shown(), ElementsAre(0, 4, 8));
  EXPECT_THAT(seen.of_frames("frame"), ElementsAre(0, 4, 8));
  EXPECT_EQ(seen.watched.early_end, "");
}

TEST(Watch, NothingIsReadBeyondMaxFrames) {
  CountingVideo video(100, 100);
  const Seen seen = see(video, {.every_n_frames = 3, .max_frames = 5, .batch_size = 2});
  EXPECT_THAT(seen.shown(), ElementsAre(0, 3, 6, 9, 12));
  EXPECT_EQ(video.next(), 13);
  EXPECT_EQ(seen.watched.early_end, "") << "it was to end there";
}

TEST(Watch, AVideoThatEndsEarlyIsSaid) {
  CountingVideo cut(60, 100), nearly(96, 100), unknown(60, 0);
  EXPECT_EQ(see(cut, {}).watched.early_end, "ends after 60 of 100 frames: damaged or cut short");
  EXPECT_EQ(see(nearly, {}).watched.early_end, "") << "what files say of their length is not always exact";
  EXPECT_EQ(see(unknown, {}).watched.early_end, "");
}

TEST(Watch, ACameraThatFallsSilentIsSaid) {
  CountingVideo camera(5, 0, /*is_live=*/true), watched(5, 0, /*is_live=*/true);
  EXPECT_EQ(see(camera, {}).watched.early_end, "gives no more frames");
  EXPECT_EQ(see(watched, {.max_frames = 3}).watched.early_end, "");
}

TEST(Watch, ASignalEndsItAfterTheFrameItComesWith) {
  CountingVideo video(100, 100);
  video.raise_at = 4;
  const Seen seen = see(video, {});
  EXPECT_THAT(seen.shown(), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(seen.watched.early_end, "");
  EXPECT_EQ(train::SignalGuard::received(), SIGTERM);
}

TEST(Watch, AnErrorOfTheDetectorNamesTheVideo) {
  const train::SignalGuard guard;
  CountingVideo video(3, 3);
  const Find fails = [](const std::vector<at::Tensor>&) -> std::vector<std::vector<Detection>> {
    throw DataError("too many tiles");
  };
  EXPECT_THAT(
      [&] {
        watch(
            video, fails, {}, [](const std::string&) {}, nullptr);
      },
      ::testing::ThrowsMessage<DataError>("counting: too many tiles"));
}

}  // namespace
}  // namespace osprey::tools
