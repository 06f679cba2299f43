#include "detect/frames.h"

#include <fmt/format.h>

#include "osprey/train/signals.h"

namespace osprey::tools {

bool Frames::goes_on() const {
  return !ended_ && (options_.max_frames == 0 || count_ < options_.max_frames) && train::SignalGuard::received() == 0;
}

/// Passes over those between two that are looked at; false at the end, or after a signal.
bool Frames::skip_between() {
  for (int64_t i = 1; count_ > 0 && i < options_.every_n_frames; ++i) {
    if (train::SignalGuard::received() != 0) return false;
    ended_ = !video_.skip();
    if (ended_) return false;
    ++position_;
  }
  return true;
}

std::vector<Frame> Frames::next() {
  std::vector<Frame> batch;
  while (std::ssize(batch) < options_.batch_size && goes_on()) {
    if (!skip_between()) break;
    std::optional<Frame> frame = video_.read();
    ended_ = !frame;
    if (ended_) break;
    position_ = frame->index + 1;
    last_time_s_ = frame->time_s;
    ++count_;
    batch.push_back(std::move(*frame));
  }
  return batch;
}

std::string Frames::early_end() const {
  constexpr double kEnough = 0.95;  // the length that files say to have is not always exact
  if (!ended_) return "";
  const VideoInfo& info = video_.info();
  if (info.is_live) return "gives no more frames";
  const auto promised = static_cast<double>(info.promised_frames), step = static_cast<double>(options_.every_n_frames);
  const double end_s = last_time_s_ + step / info.frames_per_second;
  if (static_cast<double>(position_) >= kEnough * promised || end_s >= kEnough * promised / info.frames_per_second)
    return "";
  return fmt::format("ends after {} of {} frames: damaged or cut short", position_, info.promised_frames);
}

}  // namespace osprey::tools
