#pragma once
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "osprey/base/clock.h"

/// Seconds of the fastest of several calls.
template <class Call>
double best_of(int64_t calls, Call call) {
  double best = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < calls; ++i) {
    const double start = osprey::now();
    call();
    best = std::min(best, osprey::now() - start);
  }
  return best;
}

/// The largest resident memory of this process so far.
inline double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

struct Measured {
  double seconds = 0, mebibytes = 0;
};

/// Runs `prepare`, which gives what is to be measured, and the best of several calls of that, in a process of their
/// own: the memory is what the calls took at most beyond what was prepared. To be called before the first use of
/// threads, which do not outlive a fork.
template <class Prepare>
Measured measure_apart(int64_t calls, Prepare prepare) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    const auto call = prepare();
    const double before = peak_mebibytes();
    Measured measured;
    measured.seconds = best_of(calls, call);
    measured.mebibytes = peak_mebibytes() - before;
    const bool written = write(ends[1], &measured, sizeof(measured)) == sizeof(measured);
    _exit(written ? 0 : 1);
  }
  Measured measured;
  int status = 0;
  if (child < 0 || read(ends[0], &measured, sizeof(measured)) != sizeof(measured) ||
      waitpid(child, &status, 0) != child)
    std::abort();
  close(ends[0]);
  close(ends[1]);
  return measured;
}
