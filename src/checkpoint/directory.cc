#include "osprey/checkpoint/directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>

#include "checkpoint/index_file.h"
#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"
#include "osprey/checkpoint/tensorflow_checkpoint.h"

namespace osprey::checkpoint {
namespace fs = std::filesystem;
namespace {

std::string name_of(int64_t step) { return fmt::format("ckpt-{}", step); }

/// The step of "ckpt-<step>"; nothing for any other name.
std::optional<int64_t> step_of(const std::string& name) {
  if (name.rfind("ckpt-", 0) != 0) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + 5, end, step);
  if (parsed.ec != std::errc() || parsed.ptr != end || step < 0) return std::nullopt;
  return step;
}

double written_at(const IndexFile& index, const Entry& entry) {
  for (const IndexFile::Line& line : index.all)
    if (line.name == name_of(entry.step) && line.timestamp > 0) return line.timestamp;
  std::error_code error;
  const auto time = fs::last_write_time(entry.file, error);
  if (error) return 0;
  return std::chrono::duration<double>(std::chrono::file_clock::to_sys(time).time_since_epoch()).count();
}

}  // namespace

std::vector<Entry> list(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error))
    if (item.path().extension() == kExtension)
      if (const auto step = step_of(item.path().stem())) entries.push_back({*step, item.path()});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step < b.step; });
  return entries;
}

std::vector<Entry> list_between(const fs::path& folder, int64_t first, int64_t last) {
  std::vector<Entry> entries = list(folder);
  if (entries.empty()) throw CheckpointError(fmt::format("{}: there is no checkpoint", folder.string()));
  std::string there;
  for (const Entry& entry : entries) there += fmt::format("{}{}", there.empty() ? "" : ", ", entry.step);
  std::erase_if(entries, [&](const Entry& entry) { return entry.step < first || entry.step > last; });
  if (entries.empty())
    throw CheckpointError(
        fmt::format("{}: there is no checkpoint from step {}{}; there are those of step {}", folder.string(), first,
                    last == std::numeric_limits<int64_t>::max() ? " on" : fmt::format(" to {}", last), there));
  return entries;
}

std::optional<Entry> latest(const fs::path& folder) {
  const std::vector<Entry> entries = list(folder);
  if (entries.empty()) return std::nullopt;
  const std::string newest = read_index(folder).newest;
  for (const Entry& entry : entries)
    if (name_of(entry.step) == newest) return entry;
  return entries.back();
}

fs::path resolve(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (const auto entry = latest(path)) return entry->file;
  } else {
    if (path.extension() == kExtension && fs::exists(path, error)) return path;
    const fs::path with_extension = path.string() + kExtension;
    if (fs::exists(with_extension, error)) return with_extension;
  }
  if (is_tensorflow(path)) return tensorflow_prefix(path);
  if (fs::is_regular_file(path, error)) return path;  // reading it says what it is not
  throw CheckpointError(fmt::format("{}: no checkpoint there ({})", path.string(),
                                    fs::is_directory(path, error) ? fmt::format("no file ckpt-<step>{}", kExtension)
                                                                  : std::string("no such file or folder")));
}

fs::path Directory::save(int64_t step, const Checkpoint& content, double now) {
  const fs::path file = folder_ / (name_of(step) + kExtension);
  write(file, content);

  // A run that was sent back to an earlier checkpoint leaves later ones behind; they stay until their step comes again.
  IndexFile old = read_index(folder_), index;
  index.newest = name_of(step);
  index.last_preserved = old.last_preserved;
  // The clock starts just before the first checkpoint, so that this one is not taken for a preserved one.
  if (!index.last_preserved && retention_.keep_every_n_hours > 0) index.last_preserved = now - 1;

  std::vector<Entry> entries = list(folder_), removed;
  const auto counts = [every_n = retention_.regular_every_n_steps](const Entry& entry) {
    return every_n == 0 || entry.step % every_n == 0;
  };
  int64_t old_ones = std::ranges::count_if(entries, counts) - std::max<int64_t>(1, retention_.keep_last);
  for (const Entry& entry : entries) {
    const double time = entry.step == step ? now : written_at(old, entry);
    const bool is_old = !counts(entry) || old_ones-- > 0;
    bool kept = !is_old || entry.step == step;
    if (!kept && retention_.keep_every_n_steps > 0) kept = entry.step % retention_.keep_every_n_steps == 0;
    if (!kept && retention_.keep_every_n_hours > 0) {
      // Judged once, in order of time: what is not younger than the last preserved one was preserved itself.
      kept = old.last_preserved && time <= *old.last_preserved;
      if (time - *index.last_preserved >= retention_.keep_every_n_hours * 3600) {
        kept = true;
        index.last_preserved = time;
      }
    }
    if (kept)
      index.all.push_back({name_of(entry.step), time});
    else
      removed.push_back(entry);
  }
  write_whole(folder_ / "checkpoint", index.text());
  for (const Entry& entry : removed) {
    std::error_code ignored;  // a file that cannot be removed only takes room
    fs::remove(entry.file, ignored);
  }
  return file;
}

}  // namespace osprey::checkpoint
