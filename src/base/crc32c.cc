#include "osprey/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__) && defined(__GNUC__)
#include <nmmintrin.h>
#define OSPREY_CRC32C_SSE42
#endif

namespace osprey {
namespace {

// tables[k][b]: the CRC of byte b followed by k zero bytes; eight of them take eight bytes per round (Kounavis and
// Berry, "A Systematic Approach to Building High Performance Software-Based CRC Generators", 2005).
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0x82f63b78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t byte = 0; byte < 256; ++byte)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
  return tables;
}
constexpr Tables kTables = make_tables();

#ifdef OSPREY_CRC32C_SSE42
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(const uint8_t* bytes, size_t size, uint32_t crc) {
  uint64_t state = ~crc;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    state = _mm_crc32_u64(state, word);
  }
  uint32_t tail = static_cast<uint32_t>(state);
  for (; size > 0; ++bytes, --size) tail = _mm_crc32_u8(tail, *bytes);
  return ~tail;
}
#endif

}  // namespace

uint32_t crc32c_portable(const void* data, size_t size, uint32_t crc) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; size >= 8; bytes += 8, size -= 8) {
    crc ^= static_cast<uint32_t>(bytes[0]) | static_cast<uint32_t>(bytes[1]) << 8 |
           static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
    crc = kTables[7][crc & 0xff] ^ kTables[6][(crc >> 8) & 0xff] ^ kTables[5][(crc >> 16) & 0xff] ^
          kTables[4][crc >> 24] ^ kTables[3][bytes[4]] ^ kTables[2][bytes[5]] ^ kTables[1][bytes[6]] ^
          kTables[0][bytes[7]];
  }
  for (; size > 0; ++bytes, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ *bytes) & 0xff];
  return ~crc;
}

uint32_t crc32c(const void* data, size_t size, uint32_t crc) {
#ifdef OSPREY_CRC32C_SSE42
  static const bool has_sse42 = __builtin_cpu_supports("sse4.2");
  if (has_sse42) return crc32c_sse42(static_cast<const uint8_t*>(data), size, crc);
#endif
  return crc32c_portable(data, size, crc);
}

}  // namespace osprey
