#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace osprey {

/// CRC-32C (Castagnoli) of `size` bytes; `crc` is the value of the bytes before them, so parts can be chained:
/// crc32c(b, m, crc32c(a, n)) == crc32c(ab, n + m). Uses SSE4.2 where the processor has it, else a table.
/// source  RFC 3720, appendix B.4
uint32_t crc32c(const void* data, size_t size, uint32_t crc = 0);
inline uint32_t crc32c(std::string_view bytes, uint32_t crc = 0) { return crc32c(bytes.data(), bytes.size(), crc); }

/// The table alone, on every processor: the reference of `crc32c`.
uint32_t crc32c_portable(const void* data, size_t size, uint32_t crc = 0);

/// The form that record and event files store: a CRC that is stored beside its data should not be a plain CRC of it.
inline uint32_t mask_crc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
inline uint32_t masked_crc32c(std::string_view bytes) { return mask_crc32c(crc32c(bytes)); }

}  // namespace osprey
