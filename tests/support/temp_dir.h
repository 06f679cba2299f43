#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace osprey::testing {

/// A folder of its own for one test, removed with everything in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Writes a file, with the folders above it.
void write_file(const std::filesystem::path& file, std::string_view bytes);

}  // namespace osprey::testing
