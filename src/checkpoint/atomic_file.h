#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace osprey::checkpoint {

/// A file that appears whole under its name, or not at all: written beside it, synced, renamed, the folder synced.
/// Every failure throws a CheckpointError with the file and the system's reason, and leaves no temporary file.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path file);
  ~AtomicFile();  ///< removes the temporary file where `commit` was not reached
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void append(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;
  std::filesystem::path file_, temporary_;
  int descriptor_ = -1;
};

/// Makes renames in `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder);

/// A whole file, mapped for reading. throws CheckpointError with the file and the system's reason
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& file);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::string_view view() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace osprey::checkpoint
