#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace osprey::eval {

/// Counts values in TensorFlow's buckets, whose limits grow by a tenth from 1e-12 to 1e20 and are mirrored for negative
/// values. All of it is done on the device, which is waited for when the buckets are made and never after that.
class HistogramBuckets {
 public:
  explicit HistogramBuckets(const at::Device& device);

  /// The upper limit of each bucket, growing. A value that equals one belongs to the next bucket.
  static const std::vector<double>& limits();

  /// values   any shape, floating point, on the device; those that are not finite are left out
  /// returns  [kMoments + buckets] float64 on the device: least and largest value (0 where there is none), how many,
  ///          their sum, the sum of their squares, then how many are in each bucket
  at::Tensor count(const at::Tensor& values) const;
  static constexpr int64_t kMoments = 5;

 private:
  at::Tensor limits_;  ///< [buckets] float64 on the device
};

}  // namespace osprey::eval
