#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "byte_stream.h"
#include "frame.h"
#include "osprey/base/crc32c.h"
#include "osprey/base/error.h"
#include "osprey/data/record_file.h"

namespace osprey::data {
namespace {

void append(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

std::string record_frame(std::string_view record) {
  std::string frame;
  frame.reserve(record.size() + static_cast<size_t>(kHead + kFoot));
  append(frame, record.size(), 8);
  append(frame, masked_crc32c(frame), 4);
  frame.append(record);
  append(frame, masked_crc32c(record), 4);
  return frame;
}

class RecordWriter::Sink {
 public:
  Sink(std::string path, Compression compression)
      : path_(std::move(path)), compression_(compression), file_(std::fopen(path_.c_str(), "wb")) {
    if (file_ == nullptr) fail_io(path_, "cannot create");
    if (compression_ == Compression::kNone) return;
    const int window = compression_ == Compression::kGzip ? 15 + 16 : 15;
    packed_.resize(1 << 18);
    if (deflateInit2(&zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      std::fclose(file_);
      throw std::bad_alloc();
    }
  }
  ~Sink() {
    if (compression_ != Compression::kNone) deflateEnd(&zlib_);
    if (file_ != nullptr) std::fclose(file_);
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  void write(std::string_view bytes) {
    if (compression_ == Compression::kNone) return put(bytes.data(), bytes.size());
    for (size_t at = 0; at < bytes.size(); at += 1u << 30) pack(bytes.substr(at, 1u << 30), Z_NO_FLUSH);
  }
  void flush() {
    if (compression_ != Compression::kNone) pack({}, Z_SYNC_FLUSH);
    if (std::fflush(file_) != 0) fail_io(path_, "cannot write");
  }
  void close() {
    if (file_ == nullptr) return;
    if (compression_ != Compression::kNone) pack({}, Z_FINISH);
    std::FILE* file = std::exchange(file_, nullptr);
    if (std::fclose(file) != 0) fail_io(path_, "cannot write");
  }

 private:
  void put(const void* bytes, size_t size) {
    if (file_ == nullptr) throw std::logic_error(path_ + ": written to after it was closed");
    if (std::fwrite(bytes, 1, size, file_) != size) fail_io(path_, "cannot write");
  }
  void pack(std::string_view bytes, int flush) {
    zlib_.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    zlib_.avail_in = static_cast<uInt>(bytes.size());
    do {
      zlib_.next_out = packed_.data();
      zlib_.avail_out = static_cast<uInt>(packed_.size());
      deflate(&zlib_, flush);
      put(packed_.data(), packed_.size() - zlib_.avail_out);
    } while (zlib_.avail_out == 0);
  }

  std::string path_;
  Compression compression_;
  std::FILE* file_;
  z_stream zlib_{};
  std::vector<unsigned char> packed_;
};

RecordWriter::RecordWriter(std::string path, Compression compression)
    : sink_(std::make_unique<Sink>(std::move(path), compression)) {}

RecordWriter::~RecordWriter() {
  try {
    sink_->close();
  } catch (const std::exception&) {
    // whoever wants to know calls close()
  }
}

void RecordWriter::write(std::string_view record) {
  sink_->write(record_frame(record));
  ++records_;
}

void RecordWriter::flush() { sink_->flush(); }
void RecordWriter::close() { sink_->close(); }

}  // namespace osprey::data
