#pragma once
#include <cstdint>
#include <exception>

namespace osprey {

/// Bytes of this process that lie in memory now (resident set size), 0 where the system does not say.
int64_t resident_bytes();

/// The most it ever was.
int64_t peak_resident_bytes();

/// Bytes that this process can still take without swapping: of the system, of its control group (v2) and of its own
/// limit (ulimit -v), whichever leaves least; 1 where nothing is left, 0 where nothing says.
int64_t available_bytes();

/// Whether an allocation failed, of ours or of libtorch's on any device.
bool is_out_of_memory(const std::exception& error);

}  // namespace osprey
