#pragma once
#include <ATen/core/Tensor.h>

namespace osprey::records {
class Histogram;
}

namespace osprey::eval {

/// The histogram of a tensor's finite values in TensorFlow's buckets: limits grow by a tenth from 1e-12 to 1e20,
/// mirrored for negative values; runs of empty buckets are joined.
void fill_histogram(const at::Tensor& values, records::Histogram& histogram);

}  // namespace osprey::eval
