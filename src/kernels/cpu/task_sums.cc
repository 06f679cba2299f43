#include "kernels/cpu/task_sums.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {

TaskSums::TaskSums(int64_t tasks, int64_t depth)
    : tasks_(tasks),
      depth_(depth),
      parts_(std::make_unique_for_overwrite<double[]>(static_cast<size_t>(tasks * 2 * depth))) {}

TaskSums::Sums TaskSums::begin(int64_t task) {
  double* const own = parts_.get() + task * 2 * depth_;
  std::fill_n(own, 2 * depth_, 0.0);
  return {own, own + depth_};
}

at::Tensor TaskSums::total() const {
  constexpr int64_t kSumsAtATime = 16384, kLeast = 64;
  const int64_t count = 2 * depth_, at_a_time = std::max(kLeast, kSumsAtATime / std::max<int64_t>(tasks_, 1));
  const at::Tensor result = at::empty({2, depth_}, at::kDouble);
  auto* const sums = result.mutable_data_ptr<double>();
  parallel_for((count + at_a_time - 1) / at_a_time, [&](int64_t block) {
    const int64_t first = block * at_a_time, last = std::min(count, first + at_a_time);
    std::fill(sums + first, sums + last, 0.0);
    const double* part = parts_.get();
    for (int64_t task = 0; task < tasks_; ++task, part += count)
      for (int64_t i = first; i < last; ++i) sums[i] += part[i];
  });
  return result;
}

}  // namespace osprey::kernels::cpu
