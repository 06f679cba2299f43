#include "osprey/base/memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <sstream>
#include <string>
#include <string_view>

#include "base/control_group.h"

namespace osprey {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// A line such as "VmRSS:   12345 kB", in bytes; 0 where there is none.
int64_t bytes_in(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    std::istringstream value(line.substr(key.size()));
    int64_t kib = 0;
    value >> kib;
    return kib * 1024;
  }
  return 0;
}

/// What the control groups around this process leave it; files that only lie in the cache count as free.
int64_t left_by_control_groups() {
  int64_t left = kNoLimit;
  for (const std::filesystem::path& group : control_groups()) {
    const int64_t limit = number_in(group / "memory.max", "", kNoLimit);
    if (limit == kNoLimit) continue;
    const int64_t used =
        number_in(group / "memory.current", "", 0) - number_in(group / "memory.stat", "inactive_file", 0);
    left = std::min(left, limit - used);
  }
  return left;
}

int64_t left_by_own_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return static_cast<int64_t>(limit.rlim_cur) - bytes_in("/proc/self/status", "VmSize:");
}

}  // namespace

int64_t resident_bytes() { return bytes_in("/proc/self/status", "VmRSS:"); }
int64_t peak_resident_bytes() { return bytes_in("/proc/self/status", "VmHWM:"); }

int64_t available_bytes() {
  const int64_t of_system = bytes_in("/proc/meminfo", "MemAvailable:");
  const int64_t left = std::min({of_system > 0 ? of_system : kNoLimit, left_by_control_groups(), left_by_own_limit()});
  return left == kNoLimit ? 0 : std::max<int64_t>(1, left);
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // The allocators of libtorch have no type of error in common; the third is what oneDNN says where it gets no
  // workspace, the fourth cuDNN and cuBLAS, the last libtorch where none of cuDNN's convolutions gets any.
  const std::string_view message = error.what();
  for (const char* sign : {"can't allocate memory", "out of memory", "could not create a primitive",
                           "STATUS_ALLOC_FAILED", "unable to find an engine to execute this computation"})
    if (message.find(sign) != message.npos) return true;
  return false;
}

}  // namespace osprey
