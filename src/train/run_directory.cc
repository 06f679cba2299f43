#include "osprey/train/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "osprey/base/error.h"

namespace osprey::train {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void fail(const fs::path& folder, const std::string& message) {
  throw DataError(fmt::format("model_dir {}: {}", folder.string(), message));
}

double mib(double bytes) { return bytes / (1 << 20); }

/// Writes a few bytes the way a checkpoint is written, so that a full or read-only disk shows before the first step.
void try_writing(const fs::path& folder) {
  const fs::path file = folder / ".write_test";
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(folder, fmt::format("cannot be written: {}", std::strerror(errno)));
  const std::string bytes(64 << 10, '\0');
  errno = 0;
  const bool written =
      ::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) && ::fsync(descriptor) == 0;
  const int reason = errno != 0 ? errno : ENOSPC;  // a short write sets no errno
  ::close(descriptor);
  ::unlink(file.c_str());
  if (!written) fail(folder, fmt::format("cannot be written: {}", std::strerror(reason)));
}

void check_space(const fs::path& folder, int64_t needed_bytes) {
  struct statvfs space;
  if (::statvfs(folder.c_str(), &space) != 0) return;
  const double free_bytes = static_cast<double>(space.f_bavail) * static_cast<double>(space.f_frsize);
  if (free_bytes < static_cast<double>(needed_bytes))
    fail(folder, fmt::format("the disk is full: {:.0f} MiB are free, the checkpoints need {:.0f} MiB", mib(free_bytes),
                             mib(static_cast<double>(needed_bytes))));
}

void take_lock(const fs::path& folder, int lock) {
  if (::flock(lock, LOCK_EX | LOCK_NB) == 0) return;
  if (errno != EWOULDBLOCK) fail(folder, fmt::format("cannot be locked: {}", std::strerror(errno)));
  char owner[32] = {};
  const ssize_t count = ::read(lock, owner, sizeof owner - 1);
  fail(folder, fmt::format("is held by another training{}; end that one or take another folder",
                           count > 0 ? fmt::format(" (process {})", owner) : ""));
}

}  // namespace

RunDirectory::RunDirectory(fs::path folder, int64_t needed_bytes) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail(folder_, "cannot be made: " + error.message());

  lock_ = ::open((folder_ / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) fail(folder_, fmt::format("cannot be written: {}", std::strerror(errno)));
  try {
    take_lock(folder_, lock_);
    try_writing(folder_);
    check_space(folder_, needed_bytes);
    const std::string owner = std::to_string(::getpid());
    if (::ftruncate(lock_, 0) != 0 || ::pwrite(lock_, owner.data(), owner.size(), 0) < 0)
      fail(folder_, fmt::format("cannot be written: {}", std::strerror(errno)));
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

RunDirectory::~RunDirectory() { ::close(lock_); }

void refuse_own_directory(const fs::path& model_dir, const fs::path& fine_tune_checkpoint) {
  std::error_code error;
  fs::path folder =
      fs::is_directory(fine_tune_checkpoint, error) ? fine_tune_checkpoint : fine_tune_checkpoint.parent_path();
  if (folder.empty()) folder = ".";
  const auto plain = [&](const fs::path& path) { return fs::weakly_canonical(path / "", error); };
  if (plain(model_dir) != plain(folder)) return;
  throw ConfigError(
      fmt::format("train_config.fine_tune_checkpoint: {} lies in model_dir {}, where the checkpoints of this run go: a "
                  "later start would "
                  "take it for this run's own. Use another model_dir, or leave the field empty to resume",
                  fine_tune_checkpoint.string(), model_dir.string()));
}

}  // namespace osprey::train
