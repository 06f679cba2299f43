#include "sharded_output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "osprey/base/error.h"

namespace osprey::data {
namespace fs = std::filesystem;

ShardedOutput::ShardedOutput(std::vector<std::string> files, int64_t expected_records)
    : files_(std::move(files)), expected_(std::max<int64_t>(expected_records, 1)) {
  std::error_code error;
  const fs::path folder = fs::path(files_.front()).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) throw DataError(fmt::format("{}: cannot create the folder: {}", folder.string(), error.message()));
  try {
    for (const std::string& file : files_) {
      if (fs::is_directory(file, error)) throw DataError(file + ": is a directory");
      // Hidden, so that a pattern for the finished files does not take along what a killed program leaves.
      const std::string hidden = fmt::format(".{}.{}.partial", fs::path(file).filename().string(), ::getpid());
      partial_.push_back((folder / hidden).string());
      writers_.push_back(std::make_unique<RecordWriter>(partial_.back()));
    }
  } catch (...) {
    for (const std::string& file : partial_) fs::remove(file, error);
    throw;
  }
}

ShardedOutput::~ShardedOutput() {
  writers_.clear();
  std::error_code ignored;
  for (const std::string& file : partial_) fs::remove(file, ignored);
}

void ShardedOutput::write(int64_t index, const std::string& record) {
  const auto shards = static_cast<int64_t>(writers_.size());
  writers_[static_cast<size_t>(std::clamp<int64_t>(index * shards / expected_, 0, shards - 1))]->write(record);
}

void ShardedOutput::publish() {
  for (const auto& writer : writers_) writer->close();
  for (size_t i = 0; i < files_.size(); ++i) {
    std::error_code error;
    fs::rename(partial_[i], files_[i], error);
    if (error) throw DataError(fmt::format("{}: cannot write: {}", files_[i], error.message()));
  }
  partial_.clear();
}

}  // namespace osprey::data
