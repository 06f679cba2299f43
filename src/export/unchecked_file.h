#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "osprey/base/atomic_file.h"
#include "osprey/base/error.h"

namespace osprey {

/// A form of a model until it is checked and has its name; removed where that does not come.
class UncheckedFile {
 public:
  explicit UncheckedFile(const std::filesystem::path& name)
      : name_(name), path_(name.parent_path() / ("." + name.filename().string() + ".unchecked")) {}
  ~UncheckedFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  UncheckedFile(const UncheckedFile&) = delete;
  UncheckedFile& operator=(const UncheckedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& bytes) {
    write_whole(path_, bytes);
    is_written_ = true;
  }
  bool is_written() const { return is_written_; }
  /// Where it was not written, one of an earlier export goes, which is not of this model.
  void give_name() const {
    std::error_code failed;
    if (is_written_)
      std::filesystem::rename(path_, name_, failed);
    else
      std::filesystem::remove(name_, failed);
    if (failed)
      throw DataError(
          fmt::format("{}: cannot be {}: {}", name_.string(), is_written_ ? "written" : "removed", failed.message()));
  }

 private:
  std::filesystem::path name_, path_;
  bool is_written_ = false;
};

}  // namespace osprey
