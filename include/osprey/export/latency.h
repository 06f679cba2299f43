#pragma once
#include <vector>

#include "osprey/export/detector.h"

namespace osprey {

/// How long calls of a detector take, with all that a call does: resize, network, suppression.
struct Latency {
  int64_t batch_size = 1;
  double images_per_second = 0;
  double average_ms = 0, p90_ms = 0, p95_ms = 0, p99_ms = 0;  ///< of one call; pX: X of 100 calls take no longer
};

/// The summary of single calls; `seconds` must not be empty.
Latency summarize(std::vector<double> seconds, int64_t batch_size);

/// Times `calls` full batches after some that are not counted. Each holds one of `images`, in turn, `batch_size()`
/// times.
Latency measure_latency(const Detector& detector, const std::vector<at::Tensor>& images, int calls);

}  // namespace osprey
