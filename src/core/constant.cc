#include "osprey/core/constant.h"

#include <ATen/ATen.h>
#include <ATen/TracerMode.h>

namespace osprey {

at::Tensor constant(at::ArrayRef<double> values, const at::TensorOptions& options) {
  const at::tracer::impl::NoTracerDispatchMode untraced;
  if (options.device().is_cpu()) return at::tensor(values, options);
  // filled, not copied: a copy from the host would wait, and cannot be recorded as part of a step
  const auto count = static_cast<int64_t>(values.size());
  at::Tensor result = at::empty({count}, options);
  for (int64_t i = 0; i < count; ++i) result[i].fill_(values[static_cast<size_t>(i)]);
  return result;
}

}  // namespace osprey
