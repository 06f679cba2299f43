#include "osprey/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace osprey {
namespace {

TEST(Crc32c, GivesThePublishedValues) {
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and rising; "123456789" is the usual check value.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (int i = 0; i < 32; ++i) rising.push_back(static_cast<char>(i));
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Crc32c, TableAndProcessorAgreeAtEveryLengthAndCanBeChained) {
  std::string bytes;
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(crc32c(bytes), crc32c_portable(bytes.data(), bytes.size())) << i;
    const std::string_view all = bytes;
    EXPECT_EQ(crc32c(all.substr(all.size() / 3), crc32c(all.substr(0, all.size() / 3))), crc32c(bytes)) << i;
    bytes.push_back(static_cast<char>(i * 37 + 11));
  }
}

TEST(Crc32c, MaskRotatesAndAddsAConstant) {
  // 0x00008000 rotated right by 15 is 1.
  EXPECT_EQ(mask_crc32c(0x8000u), 0xa282ead9u);
  EXPECT_EQ(masked_crc32c("123456789"), mask_crc32c(0xe3069283u));
}

}  // namespace
}  // namespace osprey
