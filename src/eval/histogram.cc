#include "eval/histogram.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "osprey/records/event.pb.h"

namespace osprey::eval {
namespace {

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(std::numeric_limits<double>::max());
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

}  // namespace

void fill_histogram(const at::Tensor& values, records::Histogram& histogram) {
  static const std::vector<double> limits = make_limits();
  std::vector<double> counts(limits.size(), 0);
  double low = std::numeric_limits<double>::max(), high = -low, sum = 0, squares = 0, num = 0;
  const at::Tensor flat = values.detach().to(at::kCPU, at::kDouble).contiguous().flatten();
  const double* data = flat.const_data_ptr<double>();
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const double value = data[i];
    if (!std::isfinite(value)) continue;
    const size_t bucket = static_cast<size_t>(std::upper_bound(limits.begin(), limits.end(), value) - limits.begin());
    counts[std::min(bucket, limits.size() - 1)] += 1;
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    squares += value * value;
    num += 1;
  }
  histogram.set_min(num > 0 ? low : 0);
  histogram.set_max(num > 0 ? high : 0);
  histogram.set_num(num);
  histogram.set_sum(sum);
  histogram.set_sum_squares(squares);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0)
      while (i + 1 < counts.size() && counts[i + 1] == 0) ++i;
    histogram.add_bucket_limit(limits[i]);
    histogram.add_bucket(counts[i]);
  }
}

}  // namespace osprey::eval
