#include "support/event_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "osprey/base/crc32c.h"
#include "support/golden.h"

namespace osprey::testing {

std::vector<records::Event> read_events(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<records::Event> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    uint32_t length_crc = 0, body_crc = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    std::memcpy(&length_crc, bytes.data() + at + 8, 4);
    EXPECT_EQ(length_crc, masked_crc32c(std::string_view(bytes).substr(at, 8)));
    const std::string_view body = std::string_view(bytes).substr(at + 12, length);
    std::memcpy(&body_crc, bytes.data() + at + 12 + length, 4);
    EXPECT_EQ(body_crc, masked_crc32c(body));
    events.emplace_back();
    EXPECT_TRUE(events.back().ParseFromArray(body.data(), static_cast<int>(body.size())));
    at += 16 + length;
  }
  return events;
}

}  // namespace osprey::testing
