#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osprey/data/example_index.h"

namespace osprey::data {

/// All records of a set of files by number, so that shuffling moves numbers and not images.
///
/// Opening hops from length to length (12 bytes of each record are read) and keeps the offsets in memory: 16 bytes per
/// record, no index file. Any number of threads may read at the same time. A packed (gzip, zlib) file has no random
/// access: it is unpacked into memory when opened, which is refused where it would take more than half of the machine's
/// memory.
class RecordIndex final : public ExampleIndex {
 public:
  /// paths   as in `expand_input_paths`
  /// throws  DataError: nothing matches, a file cannot be read or its framing is broken (with the byte offset), no
  ///         records
  explicit RecordIndex(const std::vector<std::string>& paths, std::string reader = "input reader");
  ~RecordIndex() override;
  RecordIndex(RecordIndex&&) noexcept;

  int64_t size() const override;
  const std::vector<std::string>& files() const;
  /// Bytes of all records.
  int64_t total_bytes() const;

  /// The bytes of record `index`, in [0, size()), checked against their sum.
  /// throws DataError with file and byte offset
  std::string read(int64_t index) const override;
  RecordOrigin origin(int64_t index) const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osprey::data
