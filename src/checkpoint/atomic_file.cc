#include "checkpoint/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "osprey/base/error.h"

namespace osprey::checkpoint {
namespace {

std::string reason() { return std::strerror(errno); }

}  // namespace

// The name of the temporary file is fixed, so that what a killed run left behind is overwritten by the next one.
AtomicFile::AtomicFile(std::filesystem::path file) : file_(std::move(file)), temporary_(file_.string() + ".tmp") {
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("cannot be written");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const char* action) const {
  throw CheckpointError(fmt::format("{}: {}: {}", file_.string(), action, reason()));
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

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may be written but not read: the rename stands, unsynced
  ::fsync(descriptor);
  ::close(descriptor);
}

MappedFile::MappedFile(const std::filesystem::path& file) {
  const auto fail = [&] { throw CheckpointError(fmt::format("{}: cannot be read: {}", file.string(), reason())); };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail();
  struct stat status;
  if (::fstat(descriptor, &status) != 0 || S_ISDIR(status.st_mode)) {
    if (S_ISDIR(status.st_mode)) errno = EISDIR;
    const int kept = errno;
    ::close(descriptor);
    errno = kept;
    fail();
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int kept = errno;
  ::close(descriptor);
  errno = kept;
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail();
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace osprey::checkpoint
