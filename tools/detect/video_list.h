#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "detect/watch.h"

namespace osprey::tools {

/// Looks at videos, one after the other, until the last ends or a signal comes; what is written is complete then. One
/// that cannot be read is left out with a warning.
///
/// drawn_to   a file for each video, or none at all: nothing is drawn
/// json_file  of the list, a line with a JSON object per frame; "" or "-": stdout
/// returns    the exit code: 3 where a video was left out or ended early, 128 + its number after a signal
/// throws     DataError where a result cannot be written
int list_videos(const std::vector<std::string>& paths, const Find& find, const WatchOptions& options,
                const std::vector<std::filesystem::path>& drawn_to, const std::string& json_file);

}  // namespace osprey::tools
