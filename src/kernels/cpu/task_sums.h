#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace osprey::kernels::cpu {

/// Two sums per channel that tasks gather, each by itself.
class TaskSums {
 public:
  TaskSums(int64_t tasks, int64_t depth);

  struct Sums {
    double *first, *second;  ///< [depth] each
    Sums from(int64_t channel) const { return {first + channel, second + channel}; }
  };
  /// Those of a task, zero; every task begins once.
  Sums begin(int64_t task);

  /// All together, in the order of the tasks, whatever threads they were done by: [2, depth] float64.
  at::Tensor total() const;

 private:
  int64_t tasks_, depth_;
  std::unique_ptr<double[]> parts_;
};

}  // namespace osprey::kernels::cpu
