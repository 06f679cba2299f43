#pragma once
#include <cstdint>

namespace osprey {

/// Bytes of this process that lie in memory now (resident set size), 0 where the system does not say.
int64_t resident_bytes();

/// The most it ever was.
int64_t peak_resident_bytes();

/// Bytes that programs can still take without swapping, 0 where the system does not say.
int64_t available_bytes();

}  // namespace osprey
