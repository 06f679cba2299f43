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

/// How products are made: of floats, or of what is rounded to bfloat16: of pairs of such numbers (loops/factors.h), or
/// of tiles of them (loops/amx_products.h). Sums are floats.
enum class Arithmetic { kFloats, kPairs, kAmx };

/// The fastest for maps of this type: rounded are only numbers that are multiplied with bfloat16 ones, where the
/// machine has instructions for these.
Arithmetic arithmetic_for(at::ScalarType maps);

/// Calls `work` with null pointers to a number of such maps and to what is multiplied: bfloat16 numbers or floats.
template <class Work>
void with_factors(at::ScalarType maps, const Work& work) {
  with_elements(maps, [&](auto* type) {
    if constexpr (std::is_same_v<decltype(type), Bfloat16*>)
      if (arithmetic_for(maps) != Arithmetic::kFloats) return work(type, type);
    work(type, static_cast<float*>(nullptr));
  });
}

class PlaceProducts {
 public:
  /// weights     [O, I] or [O, I, 1, 1] float32 on a CPU
  /// biases      [O], or undefined; not with `transposed`
  /// transposed  false: what a place has I of becomes O; true: the other way round
  PlaceProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed, Arithmetic arithmetic);

  int64_t depth() const { return depth_; }      ///< channels of a place
  int64_t columns() const { return columns_; }  ///< of its product

  /// Products of `count` places, at least kLeastPlaces.
  /// places   [count, depth], of any type that maps have; unless floats are multiplied of float32 or bfloat16
  /// ahead    fetched into the cache meanwhile
  /// products [count, columns], of any type that maps have
  template <class T, class Product>
  void multiply(const T* places, int64_t count, const Ahead& ahead, Product* products) const;

 private:
  int64_t depth_, columns_;
  Arithmetic arithmetic_;
  at::Tensor panels_, start_;
};

/// How some places lie when channels of them are multiplied with each other: those of one side as rows, those of the
/// other as panels of columns.
class PackedPlaces {
 public:
  PackedPlaces(Arithmetic arithmetic, int64_t count);

  /// Floats for so many channels as rows and as columns.
  int64_t rows_size(int64_t channels) const;
  int64_t columns_size(int64_t channels) const;
  /// Packs `own` channels from `first` on, of `channels` that a place has; first is a multiple of kPanelColumns.
  /// T           float or Bfloat16; the latter not where floats are multiplied
  /// from        [count, channels]
  /// rows, panels  [rows_size(channels)], [columns_size(channels)]
  template <class T>
  void pack_rows(const T* from, int64_t channels, int64_t first, int64_t own, float* rows) const;
  template <class T>
  void pack_columns(const T* from, int64_t channels, int64_t first, int64_t own, float* panels) const;

  /// Rows of a panel of them, and how many panels so many channels are.
  static int64_t panel_rows(Arithmetic arithmetic);
  static int64_t row_panels(Arithmetic arithmetic, int64_t channels);

  /// Adds the products of all `channels` of rows with some panels of columns, of which `panels` begins with the first.
  /// ahead, more  fetched into the cache meanwhile
  /// goes_on      false: what the sums are does not count
  /// sums         [panel_count, row_panels, panel_rows, kPanelColumns]
  void add(const float* rows, int64_t channels, const float* panels, int64_t panel_count, const Ahead& ahead,
           const Ahead& more, bool goes_on, float* sums) const;

 private:
  int64_t row_step(int64_t channels) const;  ///< floats from one step, or for AMX from one channel, to the next

  Arithmetic arithmetic_;
  int64_t count_, steps_;  ///< places, what a panel has of them
};

/// Sums over places of what each has of O channels times what it has of I others: the gradient of a matrix of weights.
/// They are gathered by groups of places, each in its own memory and its own thread.
class PlaceSums {
 public:
  /// How many groups there should be for so many places. 0: the matrix is too large for this.
  static int64_t groups_for(int64_t O, int64_t I, int64_t places);

  PlaceSums(int64_t O, int64_t I, int64_t groups, Arithmetic arithmetic);

  /// Adds what some places contribute.
  /// first        of the group
  /// a            [count, O] as rows: rows_size(count) floats
  /// b            [count, I] as panels of columns: columns_size(count) floats
  /// ahead, more  fetched into the cache meanwhile
  void add(int64_t group, bool first, const float* a, const float* b, int64_t count, const Ahead& ahead,
           const Ahead& more);
  /// Places as rows and as panels of columns, for `add`.
  /// T  float or Bfloat16; the latter not where floats are multiplied
  /// a  [count, O]      b  [count, I]
  template <class T>
  void pack_rows(const T* a, int64_t count, float* rows) const;
  template <class T>
  void pack_columns(const T* b, int64_t count, float* panels) const;
  int64_t rows_size(int64_t count) const;
  int64_t columns_size(int64_t count) const;

  /// [O, I, 1, 1], once: something has to have been added to each group.
  at::Tensor total();

 private:
  int64_t rows_, columns_, groups_;
  Arithmetic arithmetic_;
  at::Tensor tiles_;  ///< [groups, column panels, row panels, rows of a panel, kPanelColumns]
};

/// The same for a matrix that is too large for groups: each thread sums some of its columns over all places.
/// a  [count, O]      b  [count, I], of bfloat16 not where floats are multiplied      returns  [O, I, 1, 1]
template <class T>
at::Tensor sum_products(const T* a, int64_t O, const T* b, int64_t I, int64_t count, Arithmetic arithmetic);

/// Whichever of the two fits the matrix. count is at least kLeastPlaces.
template <class T>
at::Tensor sum_over_places(const T* a, int64_t O, const T* b, int64_t I, int64_t count, Arithmetic arithmetic);

constexpr int64_t kLeastPlaces = kLeastRows;

/// Places divided into tasks of at least kLeastPlaces; how does not depend on the number of threads.
class PlaceTasks {
 public:
  static constexpr int64_t kShares = 8;

  /// arithmetic  of the products
  /// places      at least kLeastPlaces
  /// width       numbers that a place has before or after its product, whichever are more
  /// shares      that tasks should divide into evenly: as many threads have the same to do
  PlaceTasks(Arithmetic arithmetic, int64_t places, int64_t width, int64_t shares = kShares);

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
