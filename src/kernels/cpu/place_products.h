#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/loops/product_panels.h"

/// The channels of each place of a map times a matrix, some places at a time, wherever they come from.
namespace osprey::kernels::cpu {

class PlaceProducts {
 public:
  /// weights     [O, I] or [O, I, 1, 1] float32 on a CPU
  /// biases      [O], or undefined; not with `transposed`
  /// transposed  false: what a place has I of becomes O; true: the other way round
  PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed);

  int64_t depth() const { return panels_.size(1); }  ///< channels of a place
  int64_t columns() const { return columns_; }       ///< of its product

  /// Products of `count` places, at least kLeastPlaces.
  /// places   [count, depth]      products  [count, columns]      ahead  fetched into the cache meanwhile
  void multiply(const float* places, int64_t count, const Ahead& ahead, float* products) const;

 private:
  int64_t columns_;
  at::Tensor panels_, start_;
};

/// Sums over places of what each has of O channels times what it has of I others: the gradient of a matrix of weights.
/// They are gathered by groups of places, each in its own memory and its own thread.
class PlaceSums {
 public:
  /// How many groups there should be for so many places. 0: the matrix is too large for this.
  static int64_t groups_for(int64_t O, int64_t I, int64_t places);

  PlaceSums(int64_t O, int64_t I, int64_t groups);

  /// Adds what some places contribute.
  /// first        of the group
  /// a            [count, O] as panels of rows: rows_size(count) numbers
  /// b            [count, I] as panels of columns: columns_size(count) numbers
  /// ahead, more  fetched into the cache meanwhile
  void add(int64_t group, bool first, const float* a, const float* b, int64_t count, const Ahead& ahead,
           const Ahead& more);
  int64_t rows_size(int64_t count) const { return count * row_panels_ * kPanelRows; }
  int64_t columns_size(int64_t count) const { return count * column_panels_ * kPanelColumns; }

  /// [O, I, 1, 1]; something has to have been added to each group.
  at::Tensor total() const;

 private:
  int64_t rows_, columns_, groups_, row_panels_, column_panels_;
  at::Tensor tiles_;  ///< [groups, column panels, row panels, kPanelRows, kPanelColumns]
};

/// The same for a matrix that is too large for groups: each thread sums some of its columns over all places.
/// a  [count, O]      b  [count, I]      returns  [O, I, 1, 1]
at::Tensor sum_products(const float* a, int64_t O, const float* b, int64_t I, int64_t count);

constexpr int64_t kLeastPlaces = kLeastRows;

/// Places divided into tasks of at least kLeastPlaces; how does not depend on the number of threads.
class PlaceTasks {
 public:
  static constexpr int64_t kShares = 8;

  /// places  at least kLeastPlaces
  /// width   numbers that a place has before or after its product, whichever are more
  /// shares  that tasks should divide into evenly: as many threads have the same to do
  PlaceTasks(int64_t places, int64_t width, int64_t shares = kShares);

  int64_t count() const { return count_; }
  int64_t most() const;                                    ///< places of the largest task
  std::pair<int64_t, int64_t> places(int64_t task) const;  ///< first, last + 1

  /// Calls `work(task, first place, last + 1)` for all tasks, each by some thread.
  void for_each(c10::function_ref<void(int64_t task, int64_t begin, int64_t end)> work) const;

 private:
  int64_t places_, tiles_, count_;
};

}  // namespace osprey::kernels::cpu
