#include "detect/watch.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>

#include "osprey/base/clock.h"
#include "osprey/base/error.h"
#include "osprey/base/json_text.h"

namespace osprey::tools {
namespace {

/// Says every few seconds how far it is.
class Progress {
 public:
  explicit Progress(const VideoInfo& info) : info_(info) {}

  void at(int64_t next_frame, const Watched& so_far) {
    if (now() - said_ < kPause_s) return;
    said_ = now();
    SPDLOG_INFO("{}: frame {}{}, {}", info_.path, next_frame,
                info_.promised_frames > 0 ? fmt::format(" of {}", info_.promised_frames) : "", summary(so_far));
  }

  std::string summary(const Watched& seen) const {
    return fmt::format("{} detections on {} frames, {:.1f} frames/s", seen.detections, seen.frames,
                       static_cast<double>(seen.frames) / std::max(now() - start_, 1e-9));
  }

 private:
  static constexpr double kPause_s = 5;
  const VideoInfo& info_;
  double start_ = now(), said_ = start_;
};

std::string line_of(const VideoInfo& info, const Frame& frame, const std::vector<Detection>& found) {
  nlohmann::ordered_json line{{"file", info.path},
                              {"frame", frame.index},
                              {"time_s", std::round(frame.time_s * 1000) / 1000},
                              {"height", frame.image.size(0)},
                              {"width", frame.image.size(1)}};
  line["detections"] = detections_json(found);
  return json_text(line);
}

}  // namespace

Watched watch(VideoReader& video, const Find& find, const WatchOptions& options,
              const std::function<void(const std::string& line)>& add_line, DrawnVideo* drawing) {
  const VideoInfo& info = video.info();
  Frames frames(video, options);
  Progress progress(info);
  const auto find_in = [&](const std::vector<at::Tensor>& images) {
    try {
      return find(images);
    } catch (const DataError& error) {
      throw DataError(info.path + ": " + error.what());
    }
  };
  Watched seen;
  for (std::vector<Frame> batch = frames.next(); !batch.empty(); batch = frames.next()) {
    std::vector<at::Tensor> images;
    for (const Frame& frame : batch) images.push_back(frame.image);
    const std::vector<std::vector<Detection>> found = find_in(images);
    for (size_t i = 0; i < batch.size(); ++i) {
      add_line(line_of(info, batch[i], found[i]));
      if (drawing != nullptr)
        drawing->show(drawn(images[i], found[i]), std::llround(batch[i].time_s * info.frames_per_second));
      seen.detections += std::ssize(found[i]);
    }
    seen.frames += std::ssize(batch);
    progress.at(frames.position(), seen);
  }
  if (drawing != nullptr) drawing->finish(info.is_live ? 0 : frames.position());
  SPDLOG_INFO("{}: {}", info.path, progress.summary(seen));
  seen.early_end = frames.early_end();
  return seen;
}

}  // namespace osprey::tools
