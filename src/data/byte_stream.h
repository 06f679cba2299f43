#pragma once
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "osprey/data/record_file.h"

namespace osprey::data {

/// "path: what: <text of errno>"
[[noreturn]] void fail_io(const std::string& path, const std::string& what);

uint32_t load_u32(const char* bytes);
uint64_t load_u64(const char* bytes);

/// Whether the first bytes of a file are a record frame's length and its sum.
bool begins_with_frame(const char* bytes, size_t size);

/// The unpacked bytes of a file, front to back.
class ByteStream {
 public:
  ByteStream(std::string path, Compression compression);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  /// Reads up to `size` bytes; fewer only at the end.
  ///
  /// throws  DataError for a read error or a damaged packing
  size_t read(char* out, size_t size);
  /// Bytes given so far.
  int64_t position() const { return position_; }

 private:
  size_t read_packed(char* out, size_t size);
  bool fill();

  std::string path_;
  Compression compression_;
  std::FILE* file_;
  z_stream zlib_{};
  std::vector<unsigned char> packed_;
  bool ended_ = false;  // the packed stream's own end was reached
  int64_t position_ = 0;
};

}  // namespace osprey::data
