#include "osprey/export/latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "osprey/base/clock.h"

namespace osprey {

Latency summarize(std::vector<double> seconds, int64_t batch_size) {
  std::sort(seconds.begin(), seconds.end());
  const double count = static_cast<double>(seconds.size());
  const auto within = [&](double share) {
    return 1e3 * seconds[static_cast<size_t>(std::max(std::ceil(share * count) - 1, 0.0))];
  };
  const double average = std::accumulate(seconds.begin(), seconds.end(), 0.0) / count;
  return {batch_size,  static_cast<double>(batch_size) / average, 1e3 * average, within(0.90), within(0.95),
          within(0.99)};
}

Latency measure_latency(const Detector& detector, const std::vector<at::Tensor>& images, int calls) {
  constexpr int kWarmUp = 5;  // the first calls choose kernels and lay out memory
  const auto batch = static_cast<size_t>(detector.batch_size());
  std::vector<double> seconds;
  for (int call = -kWarmUp; call < calls; ++call) {
    const std::vector<at::Tensor> rows(batch, images[static_cast<size_t>(call + kWarmUp) % images.size()]);
    const double start = now();
    detector.detect(rows);
    if (call >= 0) seconds.push_back(now() - start);
  }
  return summarize(std::move(seconds), detector.batch_size());
}

}  // namespace osprey
