#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "detect/drawn_video.h"
#include "detect/frames.h"
#include "detect/look.h"
#include "detect/video.h"

namespace osprey::tools {

/// How it went.
struct Watched {
  int64_t frames = 0, detections = 0;  ///< frames that were looked at
  std::string early_end;               ///< why it ended before it should; "" where it did not
};

/// Looks at the frames of a video.
///
/// add_line  gets one JSON object per frame, without a line end, as soon as the frame has been looked at
/// drawing   null: not drawn
Watched watch(VideoReader& video, const Find& find, const WatchOptions& options,
              const std::function<void(const std::string& line)>& add_line, DrawnVideo* drawing);

}  // namespace osprey::tools
