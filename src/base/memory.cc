#include "osprey/base/memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace osprey {
namespace {

/// A line such as "VmRSS:   12345 kB", in bytes.
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

}  // namespace

int64_t resident_bytes() { return bytes_in("/proc/self/status", "VmRSS:"); }
int64_t peak_resident_bytes() { return bytes_in("/proc/self/status", "VmHWM:"); }
int64_t available_bytes() { return bytes_in("/proc/meminfo", "MemAvailable:"); }

}  // namespace osprey
