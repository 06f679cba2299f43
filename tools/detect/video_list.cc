#include "detect/video_list.h"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>

#include "cli/cli.h"
#include "osprey/base/error.h"
#include "osprey/train/signals.h"

namespace osprey::tools {
namespace {

/// A file, or stdout, that has each line as soon as it is added.
class Lines {
 public:
  explicit Lines(const std::string& file) : file_(file) {
    if (!is_stdout()) out_.open(file, std::ios::binary);
  }

  void add(const std::string& line) {
    if (is_stdout()) return cli::print(line + "\n");
    out_ << line << '\n' << std::flush;
    if (!out_) throw DataError(file_ + ": cannot be written: " + std::strerror(errno));
  }

 private:
  bool is_stdout() const { return file_.empty() || file_ == cli::kStdout; }

  std::string file_;
  std::ofstream out_;
};

}  // namespace

int list_videos(const std::vector<std::string>& paths, const Find& find, const WatchOptions& options,
                const std::vector<std::filesystem::path>& drawn_to, const std::string& json_file) {
  const train::SignalGuard stops_at_signals;
  std::signal(SIGPIPE, SIG_IGN);  // a list that nobody reads any more is an error, after which no part of a video stays
  Lines lines(json_file);
  bool all_whole = true;
  for (size_t i = 0; i < paths.size() && train::SignalGuard::received() == 0; ++i) {
    std::unique_ptr<VideoReader> video;
    try {
      video = open_video(paths[i]);
    } catch (const DataError& error) {
      SPDLOG_WARN("left out: {}", error.what());
      all_whole = false;
      continue;
    }
    std::optional<DrawnVideo> drawing;
    if (!drawn_to.empty()) drawing.emplace(drawn_to[i], video->info().frames_per_second);
    const Watched seen = watch(
        *video, find, options, [&](const std::string& line) { lines.add(line); }, drawing ? &*drawing : nullptr);
    if (seen.early_end.empty()) continue;
    SPDLOG_WARN("{}: {}; what was found until then is written", video->info().path, seen.early_end);
    all_whole = false;
  }
  if (const int signal = train::SignalGuard::received(); signal != 0) return 128 + signal;
  return static_cast<int>(all_whole ? ExitCode::kDone : ExitCode::kData);
}

}  // namespace osprey::tools
