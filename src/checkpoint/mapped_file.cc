#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "checkpoint/fail.h"

namespace osprey::checkpoint {

MappedFile::MappedFile(const std::filesystem::path& file) {
  const auto refuse = [&] { fail(file, fmt::format("cannot be read: {}", std::strerror(errno))); };
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) refuse();
  struct stat status;
  if (::fstat(descriptor, &status) != 0 || S_ISDIR(status.st_mode)) {
    if (S_ISDIR(status.st_mode)) errno = EISDIR;
    const int kept = errno;
    ::close(descriptor);
    errno = kept;
    refuse();
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
  const int kept = errno;
  ::close(descriptor);
  errno = kept;
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    refuse();
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace osprey::checkpoint
