#include "osprey/train/memory.h"

#include <fstream>
#include <sstream>
#include <string>

namespace osprey::train {
namespace {

/// A line such as "VmRSS:   12345 kB" of /proc/self/status, in bytes.
int64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
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

int64_t resident_bytes() { return status_bytes("VmRSS:"); }
int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

}  // namespace osprey::train
