#pragma once
#include <chrono>

namespace osprey {

/// Seconds of a clock that never jumps, for differences.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds since 1970, UTC.
inline double since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace osprey
