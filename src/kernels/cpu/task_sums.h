#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <cstdint>
#include <vector>

namespace osprey::kernels::cpu {

/// Two sums per channel that tasks gather, each by itself.
class TaskSums {
 public:
  TaskSums(int64_t tasks, int64_t depth)
      : tasks_(tasks), depth_(depth), parts_(static_cast<size_t>(tasks * 2 * depth)) {}

  /// [depth] each, zero at first
  double* of(int64_t task) { return parts_.data() + task * 2 * depth_; }
  double* others_of(int64_t task) { return of(task) + depth_; }

  /// All together, in the order of the tasks, whatever threads they were done by: [2, depth] float64.
  at::Tensor total() const {
    const at::Tensor result = at::zeros({2, depth_}, at::kDouble);
    auto* const sums = result.mutable_data_ptr<double>();
    const double* part = parts_.data();
    for (int64_t task = 0; task < tasks_; ++task, part += 2 * depth_)
      for (int64_t i = 0; i < 2 * depth_; ++i) sums[i] += part[i];
    return result;
  }

 private:
  int64_t tasks_, depth_;
  std::vector<double> parts_;
};

}  // namespace osprey::kernels::cpu
