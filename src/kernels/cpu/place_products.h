#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/with_elements.h"

/// The channels of each place of a map times a matrix, some places at a time, wherever they come from.
namespace osprey::kernels::cpu {

/// Whether what maps of this type are multiplied with is rounded to bfloat16, as they are: where the machine multiplies
/// pairs of such numbers at once. Sums are floats.
bool multiplies_pairs(at::ScalarType maps);

/// Calls `work` with null pointers to a number of such maps and to what is multiplied: bfloat16 numbers, in pairs, or
/// floats.
template <class Work>
void with_factors(at::ScalarType maps, const Work& work) {
  with_elements(maps, [&](auto* type) {
    if constexpr (std::is_same_v<decltype(type), Bfloat16*>)
      if (multiplies_pairs(maps)) return work(type, type);
    work(type, static_cast<float*>(nullptr));
  });
}

class PlaceProducts {
 public:
  /// weights     [O, I] or [O, I, 1, 1] float32 on a CPU
  /// biases      [O], or undefined; not with `transposed`
  /// transposed  false: what a place has I of becomes O; true: the other way round
  /// in_pairs    see multiplies_pairs; false: floats are multiplied
  PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed, bool in_pairs);

  int64_t depth() const { return depth_; }      ///< channels of a place
  int64_t columns() const { return columns_; }  ///< of its product

  /// Products of `count` places, at least kLeastPlaces.
  /// places   [count, depth], of any type that maps have; for pairs of float32 or bfloat16
  /// ahead    fetched into the cache meanwhile
  /// products [count, columns], of any type that maps have
  template <class T, class Product>
  void multiply(const T* places, int64_t count, const Ahead& ahead, Product* products) const;

 private:
  int64_t depth_, columns_;
  bool in_pairs_;
  at::Tensor panels_, start_;
};

/// Sums over places of what each has of O channels times what it has of I others: the gradient of a matrix of weights.
/// They are gathered by groups of places, each in its own memory and its own thread.
class PlaceSums {
 public:
  /// How many groups there should be for so many places. 0: the matrix is too large for this.
  static int64_t groups_for(int64_t O, int64_t I, int64_t places);

  /// in_pairs  see multiplies_pairs; false: floats are multiplied
  PlaceSums(int64_t O, int64_t I, int64_t groups, bool in_pairs);

  /// Adds what some places contribute.
  /// first        of the group
  /// a            [count, O] as rows, of floats or pairs: rows_size(count) floats
  /// b            [count, I] as panels of columns, likewise: columns_size(count) floats
  /// ahead, more  fetched into the cache meanwhile
  void add(int64_t group, bool first, const float* a, const float* b, int64_t count, const Ahead& ahead,
           const Ahead& more);
  /// Places as rows and as panels of columns, for `add`; bfloat16 for pairs only.
  /// a  [count, O]      b  [count, I]
  template <class T>
  void pack_rows(const T* a, int64_t count, float* rows) const;
  template <class T>
  void pack_columns(const T* b, int64_t count, float* panels) const;
  int64_t rows_size(int64_t count) const { return steps(count) * row_step_for(rows_); }
  int64_t columns_size(int64_t count) const { return steps(count) * column_panels_ * kPanelColumns; }

  /// [O, I, 1, 1], once: something has to have been added to each group.
  at::Tensor total();

 private:
  int64_t steps(int64_t count) const { return steps_of(count, in_pairs_); }  ///< of so many places

  int64_t rows_, columns_, groups_, row_panels_, column_panels_;
  bool in_pairs_;
  at::Tensor tiles_;  ///< [groups, column panels, row panels, kPanelRows, kPanelColumns]
};

/// The same for a matrix that is too large for groups: each thread sums some of its columns over all places.
/// a  [count, O]      b  [count, I], of bfloat16 for pairs only      returns  [O, I, 1, 1]
template <class T>
at::Tensor sum_products(const T* a, int64_t O, const T* b, int64_t I, int64_t count, bool in_pairs);

/// Whichever of the two fits the matrix; floats are multiplied as such, bfloat16 numbers in pairs. count is at least
/// kLeastPlaces.
template <class T>
at::Tensor sum_over_places(const T* a, int64_t O, const T* b, int64_t I, int64_t count);

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
