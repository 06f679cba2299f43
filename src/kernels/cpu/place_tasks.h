#pragma once
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <utility>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/product_arithmetic.h"

/// The places of maps as tasks, for products of all channels of a place.
namespace osprey::kernels::cpu {

constexpr int64_t kLeastPlaces = kLeastRows;

/// Places divided into tasks of at least kLeastPlaces; how does not depend on the number of threads.
class PlaceTasks {
 public:
  static constexpr int64_t kShares = 8;

  /// arithmetic  of the products
  /// places      at least kLeastPlaces
  /// width       numbers that a place has before or after its product, whichever are more
  /// shares      that tasks should divide into evenly: as many threads have the same to do
  /// sums        over places, that each task adds to; 0: none
  PlaceTasks(Arithmetic arithmetic, int64_t places, int64_t width, int64_t shares = kShares, int64_t sums = 0);

  int64_t count() const { return count_; }
  int64_t most() const;                                    ///< places of the largest task
  std::pair<int64_t, int64_t> places(int64_t task) const;  ///< first, last + 1

  /// Calls `work(task, first place, last + 1)` for all tasks, each by some thread.
  void for_each(c10::function_ref<void(int64_t task, int64_t begin, int64_t end)> work) const;

 private:
  int64_t places_;
  int64_t unit_, units_;  ///< places that fill tiles, how many such
  int64_t count_;
};

}  // namespace osprey::kernels::cpu
