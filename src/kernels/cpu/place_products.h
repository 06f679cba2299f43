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
  /// weights     [O, I, 1, 1] float32 on a CPU
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
  /// How many groups there are; it depends on nothing but the matrix. 0: it is too large for this.
  static int64_t groups(int64_t O, int64_t I);

  PlaceSums(int64_t O, int64_t I);

  /// Adds what some places contribute.
  /// a      [count, O]      b  [count, I]      panels  [panel_size(count)], to work in
  /// first  of the group
  /// ahead, more  fetched into the cache meanwhile
  void add(int64_t group, bool first, const float* a, const float* b, int64_t count, float* panels, const Ahead& ahead,
           const Ahead& more);
  int64_t panel_size(int64_t count) const;

  /// [O, I, 1, 1], of the first `groups`: those that something was added to.
  at::Tensor total(int64_t groups) const;

 private:
  int64_t rows_, columns_, row_panels_, column_panels_;
  at::Tensor tiles_;  ///< [groups, column panels, row panels, kPanelRows, kPanelColumns]
};

extern const int64_t kLeastPlaces;

/// Calls `work(task, first place, last + 1)` for all places, at least kLeastPlaces at a time; the tasks do not depend
/// on the number of threads. places  at least kLeastPlaces
void for_places(int64_t places, c10::function_ref<void(int64_t task, int64_t begin, int64_t end)> work);
/// How many there are, the places of each, and how many places the largest has.
int64_t place_tasks(int64_t places);
std::pair<int64_t, int64_t> places_of(int64_t task, int64_t places);
int64_t most_places(int64_t places);

}  // namespace osprey::kernels::cpu
