#include "osprey/eval/histogram.h"

#include <ATen/ATen.h>

#include <limits>

namespace osprey::eval {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

std::vector<double> make_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  positive.push_back(kLargest);
  std::vector<double> limits;
  for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) limits.push_back(-*limit);
  limits.push_back(0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

}  // namespace

const std::vector<double>& HistogramBuckets::limits() {
  static const std::vector<double> limits = make_limits();
  return limits;
}

HistogramBuckets::HistogramBuckets(const at::Device& device) : limits_(at::tensor(limits(), at::kDouble).to(device)) {}

at::Tensor HistogramBuckets::count(const at::Tensor& values) const {
  const at::Tensor flat = values.detach().to(at::kDouble).flatten(), finite = flat.isfinite(),
                   weights = finite.to(at::kDouble), num = weights.sum();
  const int64_t buckets = limits_.numel();
  const at::Tensor bucket = at::bucketize(flat, limits_, /*out_int32=*/false, /*right=*/true).clamp_max(buckets - 1);
  const at::Tensor counts = at::zeros({buckets}, limits_.options()).scatter_add_(0, bucket, weights);
  // One value more keeps the least and the largest of none from being an error.
  const auto with = [&](double other) {
    return at::cat({at::where(finite, flat, other), at::full({1}, other, flat.options())});
  };
  const at::Tensor known = at::where(finite, flat, 0.0), any = num > 0;
  const at::Tensor moments =
      at::stack({at::where(any, with(kLargest).min(), 0.0), at::where(any, with(-kLargest).max(), 0.0), num,
                 known.sum(), known.square().sum()});
  return at::cat({moments, counts});
}

}  // namespace osprey::eval
