#include <algorithm>

#include "byte_stream.h"
#include "frame.h"
#include "osprey/data/record_file.h"

namespace osprey::data {

class RecordReader::Stream : public ByteStream {
  using ByteStream::ByteStream;
};

RecordReader::RecordReader(std::string path) {
  const Compression compression = compression_of(path);
  stream_ = std::make_unique<Stream>(path, compression);
  origin_.file = std::move(path);
}

RecordReader::~RecordReader() = default;

bool RecordReader::next(std::string& record) {
  const RecordOrigin here{origin_.file, records_, stream_->position()};
  char head[kHead], foot[kFoot];
  const size_t available = stream_->read(head, kHead);
  if (available == 0) return false;
  const uint64_t length = frame_length(head, static_cast<int64_t>(available), -1, here);

  // Grows as bytes come, so that a damaged length does not ask for all memory.
  constexpr uint64_t kStep = 1 << 24;
  record.clear();
  while (record.size() < length) {
    const size_t before = record.size();
    record.resize(before + static_cast<size_t>(std::min<uint64_t>(kStep, length - before)));
    const size_t count = stream_->read(record.data() + before, record.size() - before);
    if (before + count < record.size())
      fail_cut_short(here, static_cast<uint64_t>(kHead + kFoot) + length, kHead + static_cast<int64_t>(before + count));
  }
  const size_t foot_size = stream_->read(foot, kFoot);
  if (foot_size < static_cast<size_t>(kFoot))
    fail_cut_short(here, static_cast<uint64_t>(kHead + kFoot) + length,
                   kHead + static_cast<int64_t>(record.size() + foot_size));
  check_payload(record, foot, here);
  origin_ = here;
  ++records_;
  return true;
}

}  // namespace osprey::data
