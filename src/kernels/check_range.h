#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "osprey/kernels/device.h"

namespace osprey::kernels {

/// Throws c10::Error where a number of `values` lies outside [low, high). On a CPU only: a device would be waited for.
/// values  int64, contiguous
/// name    of the argument, for the message
inline void check_range(const at::Tensor& values, int64_t low, int64_t high, const char* name) {
  if (!values.is_cpu() || device::reading_waits(values)) return;
  const int64_t* const first = values.const_data_ptr<int64_t>();
  TORCH_CHECK(std::all_of(first, first + values.numel(), [&](int64_t value) { return value >= low && value < high; }),
              name, " lies outside [", low, ", ", high, ")");
}

}  // namespace osprey::kernels
