#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/train/replicas.h"

namespace osprey::train {

struct LaunchOptions {
  std::vector<std::string> arguments;  ///< of this very program, its name first: what each replica is started with
  int64_t clones = 1;                  ///< replicas on this machine
  int64_t machines = 1, machine = 0;   ///< each of them starts as many; this is which of them
  std::string master_address = "127.0.0.1";
  int64_t master_port = 0;   ///< 0: some free port, for one machine
  int64_t max_restarts = 0;  ///< how often all replicas are started again after one of them has been lost
  double grace_seconds = 5;  ///< for the others to end by themselves after one has failed; then they are killed
};

/// Starts the replicas of one training on this machine and watches over them until all have ended. They end with this
/// process, whatever ends it; SIGINT and SIGTERM are passed on, once each.
///
/// To be called while the process has one thread only. What went wrong with which replica is written to stderr.
/// returns  0 where all went well; else the exit code of the replica that failed first, ExitCode::kData where a signal
///          ended it that was not passed on
/// throws   ConfigError for numbers that make no sense, DataError where a process cannot be started
int launch_replicas(const LaunchOptions& options);

}  // namespace osprey::train
