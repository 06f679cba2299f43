#include "osprey/eval/histogram.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace osprey::eval {
namespace {

using ::testing::ElementsAre;

std::vector<double> count(const at::Tensor& values) {
  const at::Tensor numbers = HistogramBuckets(at::kCPU).count(values);
  return {numbers.const_data_ptr<double>(), numbers.const_data_ptr<double>() + numbers.numel()};
}

/// How many values a histogram has in the bucket of one.
double in_bucket_of(const std::vector<double>& counted, double value) {
  const auto& limits = HistogramBuckets::limits();
  const auto bucket = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
  return counted.at(static_cast<size_t>(HistogramBuckets::kMoments + bucket));
}

TEST(HistogramBuckets, CountFiniteValuesOnly) {
  const auto counted = count(at::tensor({-2.0, 0.0, 0.5, 0.5, NAN, INFINITY, -INFINITY, 3.0}));
  EXPECT_THAT(std::vector<double>(counted.begin(), counted.begin() + HistogramBuckets::kMoments),
              ElementsAre(-2, 3, 5, 2, 4 + 0.25 + 0.25 + 9));
  EXPECT_EQ(in_bucket_of(counted, -2), 1);
  EXPECT_EQ(in_bucket_of(counted, 0), 1);
  EXPECT_EQ(in_bucket_of(counted, 0.5), 2);
  EXPECT_EQ(in_bucket_of(counted, 3), 1);
  double all = 0;
  for (size_t i = HistogramBuckets::kMoments; i < counted.size(); ++i) all += counted[i];
  EXPECT_EQ(all, 5);
}

TEST(HistogramBuckets, ALimitBelongsToTheNextBucketAndTheLargestNumberToTheLast) {
  const auto& limits = HistogramBuckets::limits();
  EXPECT_TRUE(std::is_sorted(limits.begin(), limits.end()));
  const double limit = limits[limits.size() / 2 + 100], largest = std::numeric_limits<double>::max();
  const auto counted = count(at::tensor({limit, std::nextafter(limit, 0), largest}, at::kDouble));
  EXPECT_EQ(in_bucket_of(counted, limit), 1);
  EXPECT_EQ(in_bucket_of(counted, std::nextafter(limit, 0)), 1);
  EXPECT_EQ(counted.back(), 1);
}

TEST(HistogramBuckets, OfNoValuesAreZeros) {
  for (const at::Tensor& none : {at::zeros({0}), at::full({3}, NAN)})
    for (const double number : count(none)) EXPECT_EQ(number, 0);
}

TEST(HistogramBuckets, TakeNumbersOfHalfTheBits) {
  const auto counted = count(at::full({2, 3}, 0.5, at::kBFloat16));
  EXPECT_EQ(in_bucket_of(counted, 0.5), 6);
}

}  // namespace
}  // namespace osprey::eval
