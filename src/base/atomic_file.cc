#include "osprey/base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "osprey/base/error.h"

namespace osprey {
namespace {

std::string temporary_name(const std::filesystem::path& file, AtomicFile::Temporary temporary) {
  return temporary == AtomicFile::Temporary::kOne ? file.string() + ".tmp"
                                                  : fmt::format("{}.{}.tmp", file.string(), ::getpid());
}

/// Makes renames in `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may be written but not read: the rename stands, unsynced
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path file, Temporary temporary)
    : file_(std::move(file)), temporary_(temporary_name(file_, temporary)) {
  constexpr mode_t kAsTheUserLikes = 0666;  // less what the umask takes
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kAsTheUserLikes);
  if (descriptor_ < 0) fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) const {
  throw DataError(fmt::format("{}: {}: {}", file_.string(), action, std::strerror(errno)));
}

void AtomicFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("cannot be written");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("cannot be synced to disk");
  if (::rename(temporary_.c_str(), file_.c_str()) != 0) fail("cannot be put in place");
  ::close(descriptor_);
  descriptor_ = -1;
  sync_folder(file_.parent_path());
}

void write_whole(const std::filesystem::path& file, std::string_view bytes, AtomicFile::Temporary temporary) {
  AtomicFile out(file, temporary);
  out.append(bytes);
  out.commit();
}

}  // namespace osprey
