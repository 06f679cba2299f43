#pragma once
#include <memory>

#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/normalized_convolution.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/batch_norm.h"

/// What convolutions of each channel and of all channels do to the numbers around them.
namespace osprey::kernels::cpu {

/// Memory that is written before it is read.
inline std::unique_ptr<float[]> scratch(int64_t count) {
  return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(count));
}

/// The moments of rows that come one after the other, of one task.
class TaskMoments {
 public:
  TaskMoments(const float* first, int64_t depth, TaskSums& sums, int64_t task)
      : first_(first), depth_(depth), scratch_(scratch(2 * depth)), sums_(sums.begin(task)) {}
  void add(const float* rows, int64_t count) {
    add_moments(rows, count, depth_, first_, scratch_.get(), sums_.first, sums_.second);
    count_ += count;
  }
  void finish() {
    const device::Moments<float> element{first_, depth_};
    for (int64_t c = 0; c < depth_; ++c) element.finish(first_[c], count_, sums_.first[c], sums_.second[c]);
  }

 private:
  const float* first_;  ///< the first row: what is summed are differences from it
  int64_t depth_, count_ = 0;
  std::unique_ptr<float[]> scratch_;
  TaskSums::Sums sums_;  ///< of differences, of their squares
};

/// Rows of the total gradient from element `first` on.
inline void make_total(const ThroughStatistics& from, int64_t first, int64_t rows, float* total) {
  add_through_statistics(from.gradient.const_data_ptr<float>() + first, from.y.const_data_ptr<float>() + first, rows,
                         from.y.size(1), from.mean.const_data_ptr<float>(), from.slope.const_data_ptr<float>(),
                         from.offset.const_data_ptr<float>(), total);
}

}  // namespace osprey::kernels::cpu
