#include "byte_stream.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "osprey/base/crc32c.h"
#include "osprey/base/error.h"

namespace osprey::data {
namespace {
constexpr size_t kBuffer = 1 << 18;
}

void fail_io(const std::string& path, const std::string& what) {
  throw DataError(fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

uint32_t load_u32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

uint64_t load_u64(const char* bytes) { return static_cast<uint64_t>(load_u32(bytes + 4)) << 32 | load_u32(bytes); }

bool begins_with_frame(const char* bytes, size_t size) {
  return size >= 12 && masked_crc32c({bytes, 8}) == load_u32(bytes + 8);
}

Compression compression_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_io(path, "cannot open");
  if (S_ISDIR(status.st_mode)) throw DataError(path + ": is a directory, not a record file");
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) fail_io(path, "cannot open");
  char head[12];
  const size_t size = std::fread(head, 1, sizeof(head), file);
  std::fclose(file);
  if (size < 2 || begins_with_frame(head, size)) return Compression::kNone;
  const unsigned first = static_cast<unsigned char>(head[0]), second = static_cast<unsigned char>(head[1]);
  if (first == 0x1f && second == 0x8b) return Compression::kGzip;                          // RFC 1952
  if ((first & 0x0f) == 8 && (first * 256 + second) % 31 == 0) return Compression::kZlib;  // RFC 1950
  return Compression::kNone;
}

ByteStream::ByteStream(std::string path, Compression compression)
    : path_(std::move(path)), compression_(compression), file_(std::fopen(path_.c_str(), "rb")) {
  if (file_ == nullptr) fail_io(path_, "cannot open");
  if (compression_ == Compression::kNone) return;
  packed_.resize(kBuffer);
  const int window = compression_ == Compression::kGzip ? 15 + 16 : 15;
  if (inflateInit2(&zlib_, window) != Z_OK) {
    std::fclose(file_);
    throw std::bad_alloc();
  }
}

ByteStream::~ByteStream() {
  if (compression_ != Compression::kNone) inflateEnd(&zlib_);
  std::fclose(file_);
}

size_t ByteStream::read(char* out, size_t size) {
  size_t count = 0;
  if (compression_ == Compression::kNone) {
    count = std::fread(out, 1, size, file_);
    if (count < size && std::ferror(file_)) fail_io(path_, fmt::format("cannot read at byte {}", position_));
  } else {
    count = read_packed(out, size);
  }
  position_ += static_cast<int64_t>(count);
  return count;
}

bool ByteStream::fill() {
  if (zlib_.avail_in > 0) return true;
  zlib_.next_in = packed_.data();
  zlib_.avail_in = static_cast<uInt>(std::fread(packed_.data(), 1, packed_.size(), file_));
  if (zlib_.avail_in == 0 && std::ferror(file_)) fail_io(path_, "cannot read");
  return zlib_.avail_in > 0;
}

size_t ByteStream::read_packed(char* out, size_t size) {
  size_t count = 0;
  while (count < size) {
    if (!fill()) {
      if (ended_) break;
      throw DataError(fmt::format("{}: the packed file is cut short: it ends at byte {} of its unpacked content", path_,
                                  position_ + static_cast<int64_t>(count)));
    }
    if (ended_) {  // several packed files one after the other are one
      inflateReset(&zlib_);
      ended_ = false;
    }
    const size_t wanted = std::min<size_t>(size - count, 1u << 30);
    zlib_.next_out = reinterpret_cast<unsigned char*>(out) + count;
    zlib_.avail_out = static_cast<uInt>(wanted);
    const int status = inflate(&zlib_, Z_NO_FLUSH);
    count += wanted - zlib_.avail_out;
    if (status == Z_STREAM_END) {
      ended_ = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      const int64_t packed = std::ftell(file_) - static_cast<int64_t>(zlib_.avail_in);
      throw DataError(fmt::format("{}: the packed file is damaged at byte {} (byte {} of its unpacked content): {}",
                                  path_, packed, position_ + static_cast<int64_t>(count),
                                  zlib_.msg != nullptr ? zlib_.msg : "no more is known"));
    }
  }
  return count;
}

}  // namespace osprey::data
