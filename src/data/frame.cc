#include "frame.h"

#include <fmt/format.h>

#include "byte_stream.h"
#include "osprey/base/crc32c.h"
#include "osprey/base/error.h"

namespace osprey::data {

std::string RecordOrigin::describe() const {
  if (offset >= 0) return fmt::format("{}: record {} (byte {})", file, record, offset);
  return picture.empty() ? file : fmt::format("{}: {}", file, picture);
}

void fail_cut_short(const RecordOrigin& origin, uint64_t wanted, int64_t found) {
  throw DataError(fmt::format("{}: the file is cut short: the record needs {} bytes from here, {} are left",
                              origin.describe(), wanted, found));
}

uint64_t frame_length(const char* head, int64_t available, int64_t rest, const RecordOrigin& origin) {
  if (available < kHead) fail_cut_short(origin, static_cast<uint64_t>(kHead + kFoot), available);
  const uint32_t expected = load_u32(head + 8), found = masked_crc32c({head, 8});
  if (expected != found)
    throw DataError(
        fmt::format("{}: damaged, or not a TFRecord file: the checksum of the length is {:08x}, expected {:08x}",
                    origin.describe(), found, expected));
  const uint64_t length = load_u64(head);
  if (rest >= 0 && (rest < kFoot || length > static_cast<uint64_t>(rest - kFoot)))
    fail_cut_short(origin, static_cast<uint64_t>(kHead + kFoot) + length, kHead + rest);
  return length;
}

void check_payload(std::string_view record, const char* foot, const RecordOrigin& origin) {
  const uint32_t expected = load_u32(foot), found = masked_crc32c(record);
  if (expected != found)
    throw DataError(fmt::format("{}: damaged: the checksum of its {} bytes is {:08x}, expected {:08x}",
                                origin.describe(), record.size(), found, expected));
}

}  // namespace osprey::data
