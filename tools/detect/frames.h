#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "detect/video.h"

namespace osprey::tools {

struct WatchOptions {
  int64_t every_n_frames = 1;  ///< looks at frames 0, n, 2n, ...
  int64_t max_frames = 0;      ///< that are looked at; 0: all
  int64_t batch_size = 1;      ///< frames that are looked at together
};

/// The frames of a video that are looked at: until its end, `max_frames`, or a signal that a SignalGuard takes.
class Frames {
 public:
  /// Both are to outlive this.
  Frames(VideoReader& video, const WatchOptions& options) : video_(video), options_(options) {}

  /// The next ones, fewer than a batch at the end; none after it.
  std::vector<Frame> next();

  /// How many frames were read, those between included.
  int64_t position() const { return position_; }

  /// Why the video ended before it should; "" where it did not: a file that has less than 95 % of the frames, and of
  /// the time, that it says to have, or what is live and gives no more.
  std::string early_end() const;

 private:
  bool goes_on() const;
  bool skip_between();

  VideoReader& video_;
  const WatchOptions& options_;
  int64_t position_ = 0, count_ = 0;
  double last_time_s_ = 0;
  bool ended_ = false;
};

}  // namespace osprey::tools
