#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

namespace osprey::checkpoint {

/// A whole file, mapped for reading.
///
/// throws  CheckpointError with the file and the system's reason
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
