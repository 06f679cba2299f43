#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/product_arithmetic.h"

/// Products of the channels of places with each other, summed over places: gradients of matrices of weights.
namespace osprey::kernels::cpu {

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
  /// For those who write floats as panels of columns themselves: floats from one to the next, and what remains to be
  /// done when all `channels` are there.
  int64_t panel_size() const { return lines() * kPanelColumns; }
  void finish_columns(int64_t channels, float* panels) const;

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
  int64_t lines() const;                     ///< steps, and what follows them

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
  /// The same of columns that `write(panels, floats from one panel to the next)` writes as floats.
  template <class Write>
  void make_columns(int64_t count, float* panels, const Write& write) const {
    TORCH_INTERNAL_ASSERT(!rounds(arithmetic_));
    const PackedPlaces places(arithmetic_, count);
    write(panels, places.panel_size());
    places.finish_columns(columns_, panels);
  }
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

}  // namespace osprey::kernels::cpu
