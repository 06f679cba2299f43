#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "osprey/data/record_file.h"

namespace osprey::data {

/// Record files that appear under their names only when all is written; until then, and after an error, there are none.
class ShardedOutput {
 public:
  /// files   the shards, all in one folder
  /// throws  DataError where they cannot be created
  ShardedOutput(std::vector<std::string> files, int64_t expected_records);
  ~ShardedOutput();

  /// Record `index` of the expected ones goes to the shard of its range: shards hold neighbours.
  void write(int64_t index, const std::string& record);
  /// Gives the files their names, replacing those that are there.
  void publish();
  const std::vector<std::string>& files() const { return files_; }

 private:
  std::vector<std::string> files_, partial_;
  std::vector<std::unique_ptr<RecordWriter>> writers_;
  int64_t expected_;
};

}  // namespace osprey::data
