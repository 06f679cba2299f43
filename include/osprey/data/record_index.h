#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "osprey/data/record_file.h"

namespace osprey::data {

/// The files behind a list of input paths, each path's files in alphabetical order.
///
/// A path may be a file, a pattern with `?`, `*` and `[..]`, or `name@N`, which stands for the N shards
/// `name-00000-of-0000N` ... An existing file is taken by its name even if that looks like a pattern. A file that two
/// paths name is taken once.
///
/// reader  how messages call the list: "train_input_reader"
/// throws  DataError "train_input_reader: 0 files match '...'", for every path that matches nothing; also for a
///         placeholder (PATH_TO_BE_CONFIGURED) and for a directory
std::vector<std::string> expand_input_paths(const std::vector<std::string>& paths, const std::string& reader);

/// What to say where files are only some of the shards of a set, "name-00000-of-00003", while others lie beside them;
/// empty where they are all or have no such names.
std::string unread_shards(const std::vector<std::string>& files);

/// All records of a set of files by number, so that shuffling moves numbers and not images.
///
/// Opening hops from length to length (12 bytes of each record are read) and keeps the offsets in memory: 16 bytes per
/// record, no index file. Any number of threads may read at the same time. A packed (gzip, zlib) file has no random
/// access: it is unpacked into memory when opened, which is refused where it would take more than half of the machine's
/// memory.
class RecordIndex {
 public:
  /// paths   as in `expand_input_paths`
  /// throws  DataError: nothing matches, a file cannot be read or its framing is broken (with the byte offset), no
  ///         records
  explicit RecordIndex(const std::vector<std::string>& paths, std::string reader = "input reader");
  ~RecordIndex();
  RecordIndex(RecordIndex&&) noexcept;

  int64_t size() const;
  const std::vector<std::string>& files() const;
  /// Bytes of all records.
  int64_t total_bytes() const;

  /// The bytes of record `index`, in [0, size()), checked against their sum.
  /// throws DataError with file and byte offset
  std::string read(int64_t index) const;
  RecordOrigin origin(int64_t index) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace osprey::data
