#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "kernels/arithmetic/moments.h"
#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/batch_norm_rows.h"
#include "kernels/cpu/normalized_convolution.h"
#include "kernels/cpu/task_sums.h"
#include "kernels/device/launch.h"

/// What convolutions of each channel and of all channels do to the numbers around them.
namespace osprey::kernels::cpu {

/// Makes the moments of channels of sums of differences from `center`, and of their squares.
/// center  [depth]
inline void finish_moments(const float* center, int64_t count, int64_t depth, const TaskSums::Sums& sums) {
  for (int64_t c = 0; c < depth; ++c) moments_from(center[c], count, sums.first[c], sums.second[c]);
}

/// The moments of rows that come one after the other, of one task.
template <class T>
class TaskMoments {
 public:
  /// sums  zero, to which they are added
  TaskMoments(const T* first, int64_t depth, int64_t step, const TaskSums::Sums& sums)
      : first_(first), depth_(depth), step_(step), scratch_(scratch(3 * depth)), sums_(sums) {}
  void add(const T* rows, int64_t count) {
    if (count_ == 0)
      for (int64_t c = 0; c < depth_; ++c) center()[c] = load(first_ + c);
    add_moments(rows, count, depth_, step_, center(), scratch_.get(), sums_.first, sums_.second);
    count_ += count;
  }
  void finish() { finish_moments(center(), count_, depth_, sums_); }

 private:
  float* center() const { return scratch_.get() + 2 * depth_; }

  const T* first_;  ///< row: what is summed are differences from it
  int64_t depth_, step_, count_ = 0;
  Scratch<> scratch_;
  TaskSums::Sums sums_;  ///< of differences, of their squares
};

/// Sums for every map, gathered by pieces of them.
/// pieces  each has the number of its map, `map`
template <class Piece>
std::vector<TaskSums> sums_of(const std::vector<Piece>& pieces, size_t maps, int64_t depth) {
  std::vector<int64_t> counts(maps);
  for (const Piece& piece : pieces) ++counts[piece.map];
  std::vector<TaskSums> result;
  for (const int64_t count : counts) result.emplace_back(count, depth);
  return result;
}

/// Rows of the total gradient from element `first` on.
/// total  of float32, or as the numbers of the map are
template <class T, class Number>
void make_total(const ThroughStatistics& from, int64_t first, int64_t rows, Number* total) {
  const int64_t depth = from.y.size(1);
  add_through_statistics(device::data<const T>(from.gradient) + first, device::data<const T>(from.y) + first, rows,
                         depth, /*step=*/depth, from.mean.const_data_ptr<float>(), from.scale.const_data_ptr<float>(),
                         from.slope.const_data_ptr<float>(), from.offset.const_data_ptr<float>(), total);
}

/// The gradient of a map, some rows at a time: they are made as floats, then taken back through what had normalised
/// the map, if anything has, and through the sum of that and of another, if there is one.
template <class T>
class RowGradients {
 public:
  /// most  rows at a time
  /// sum   null: none
  RowGradients(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& result, int64_t most,
               const ReadSum* sum = nullptr)
      : x_(device::data<const T>(x)),
        sum_(sum == nullptr ? nullptr : device::data<const T>(sum->sum)),
        again_(sum == nullptr || !sum->again.defined() ? nullptr : device::data<const T>(sum->again)),
        result_(device::data<T>(result)),
        depth_(x.size(1)),
        channels_(affine ? &affine->channels : nullptr),
        drafts_(most * depth_),
        scratch_(scratch(2 * depth_)) {}

  /// Where those from element `first` of the map on are to be made.
  float* begin(int64_t first) const { return drafts_.of(result_ + first); }
  /// sums  to which they are added
  void finish(int64_t first, int64_t rows, const TaskSums::Sums& sums) const {
    if (channels_ == nullptr) return drafts_.write(rows * depth_, result_ + first);
    if (sum_ != nullptr)
      return take_back_sum_rows(begin(first), again_ == nullptr ? nullptr : again_ + first, sum_ + first, x_ + first,
                                rows, depth_, *channels_, scratch_.get(), sums.first, sums.second, result_ + first);
    take_back_rows(begin(first), x_ + first, rows, depth_, /*step=*/depth_, *channels_, scratch_.get(), sums.first,
                   sums.second, result_ + first);
  }

 private:
  const T *x_, *sum_, *again_;  ///< null: there is no sum, no rest of its gradient
  T* result_;
  int64_t depth_;
  const ChannelAffine* channels_;  ///< null: nothing had been normalised
  Drafts<T> drafts_;
  Scratch<> scratch_;
};

}  // namespace osprey::kernels::cpu
