#include "base/processors.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "base/control_group.h"

namespace osprey {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(": ") + 2));
  return "unknown";
}

int64_t ProcessorLimits::usable() const {
  if (share <= 0) return allowed;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(share)), 1, allowed);
}

ProcessorLimits processor_limits() {
  ProcessorLimits result;
  result.of_machine = std::max<int64_t>(1, ::sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails where a machine has more processors than fit in the set.
  result.allowed = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : result.of_machine;
  for (const std::filesystem::path& group : control_groups()) {
    std::ifstream in(group / "cpu.max");  // microseconds of each period, "max" for no limit
    double most = 0, period = 0;
    if (!(in >> most >> period) || period <= 0) continue;
    result.share = result.share > 0 ? std::min(result.share, most / period) : most / period;
  }
  return result;
}

}  // namespace osprey
