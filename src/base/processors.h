#pragma once
#include <cstdint>
#include <string>

namespace osprey {

/// The name of this machine's CPU, "unknown" where the system does not say.
std::string processor_name();

/// How many processors the threads of this process may use at once.
struct ProcessorLimits {
  int64_t of_machine = 1;  ///< that are there
  int64_t allowed = 1;     ///< of them, those that it may run on (taskset, cpuset)
  double share = 0;        ///< of their time, as a number of processors, by its control groups (v2); 0: all of it
  int64_t usable() const;  ///< what both leave, at least 1
};
ProcessorLimits processor_limits();

}  // namespace osprey
