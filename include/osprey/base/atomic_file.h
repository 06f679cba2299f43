#pragma once
#include <filesystem>
#include <string_view>

namespace osprey {

/// A file that appears whole under its name, or not at all: written beside it, synced, renamed, the folder synced.
///
/// Every failure throws a DataError with the file and the system's reason, and leaves no temporary file.
class AtomicFile {
 public:
  /// What the file is called until it is whole.
  enum class Temporary {
    kOne,        ///< "<file>.tmp": what a killed process left behind is overwritten by the next one
    kPerProcess  ///< "<file>.<pid>.tmp": several processes may write the file at a time, and the last one's stays
  };

  explicit AtomicFile(std::filesystem::path file, Temporary temporary = Temporary::kOne);
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

/// Makes `bytes` the content of a file, through an AtomicFile.
void write_whole(const std::filesystem::path& file, std::string_view bytes,
                 AtomicFile::Temporary temporary = AtomicFile::Temporary::kOne);

}  // namespace osprey
