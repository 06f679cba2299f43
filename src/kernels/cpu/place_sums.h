#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/place_tasks.h"
#include "kernels/cpu/product_arithmetic.h"

/// Products of the channels of places with each other, summed over places: gradients of matrices of weights.
namespace osprey::kernels::cpu {

/// How some places lie when channels of them are multiplied with each other: those of one side as rows, those of the
/// other as panels of columns. Both are packed, some places at a time if need be, then finished, then multiplied.
class PackedPlaces {
 public:
  PackedPlaces(Arithmetic arithmetic, int64_t count);

  /// Floats for so many channels as rows and as columns.
  int64_t rows_size(int64_t channels) const;
  int64_t columns_size(int64_t channels) const;
  /// Packs the places from `begin` on, up to `end`; tasks (place_tasks.h) begin where these may.
  ///
  /// T             float or Bfloat16; the latter not where floats are multiplied
  /// from          [end - begin, channels]
  /// rows, panels  [rows_size(channels)], [columns_size(channels)]
  template <class T>
  void pack_rows(const T* from, int64_t channels, int64_t begin, int64_t end, float* rows) const;
  template <class T>
  void pack_columns(const T* from, int64_t channels, int64_t begin, int64_t end, float* panels) const;
  /// For those who write panels of columns themselves: where places begin, and floats from one panel to the next.
  float* columns_from(int64_t begin, float* panels) const {
    return panels + steps_of(begin, rounds(arithmetic_)) * kPanelColumns;
  }
  int64_t panel_size() const { return lines() * kPanelColumns; }

  /// When all places are there: what is left to be done, with `own` channels from `first` on, a multiple of
  /// kPanelColumns. Whether anything is, for rows.
  void finish_rows(int64_t channels, int64_t first, int64_t own, float* rows) const;
  void finish_columns(int64_t channels, float* panels) const;
  static bool finishes_rows(Arithmetic arithmetic) { return arithmetic == Arithmetic::kInnerProducts; }

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

/// Where a task packs its places, from `begin` up to `end` of those that are packed together.
struct PlacePiece {
  /// As rows and as columns.
  /// a  [places of the task, O]      b  [places of the task, I]
  template <class T>
  void pack_rows(const T* a) const {
    places.pack_rows(a, O, begin, end, rows);
  }
  template <class T>
  void pack_columns(const T* b) const {
    places.pack_columns(b, I, begin, end, panels);
  }
  /// The columns, written by `write(first of them, floats from one panel to the next)`, as floats or as pairs.
  template <class Write>
  void make_columns(const Write& write) const {
    write(places.columns_from(begin, panels), places.panel_size());
  }

  PackedPlaces places;
  int64_t O, I, begin, end;
  float *rows, *panels;
};

/// Sums over places of what each has of O channels times what it has of I others: the gradient of a matrix of weights.
/// As long as matrices are small, places are gathered by groups, each of which has sums of its own. Larger ones are
/// summed once: all tasks pack their places, then each thread sums some of the columns.
class PlaceSums {
 public:
  /// places  at least kLeastPlaces
  PlaceSums(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic);

  /// By which the places come.
  const PlaceTasks& tasks() const { return tasks_; }

  /// What is read after a task has packed its places, if another one follows.
  struct Next {
    Ahead first, second;
  };
  using Pack = c10::function_ref<Next(int64_t task, int64_t begin, int64_t end, const PlacePiece& piece)>;
  /// Calls `pack(task, first place, last + 1, piece)` for all tasks, each by some thread. It packs all rows and
  /// columns.
  /// returns  [O, I, 1, 1]
  at::Tensor of(const Pack& pack) const;

 private:
  static int64_t groups_for(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic);
  at::Tensor by_groups(const Pack& pack) const;
  at::Tensor by_columns(const Pack& pack) const;
  at::Tensor tiles(int64_t groups) const;  ///< [groups, column panels, row panels, rows of a panel, kPanelColumns]
  /// Brings a tile to where it belongs.
  void unpack(const float* tile, int64_t panel, int64_t row_panel, const at::Tensor& result) const;

  int64_t rows_, columns_;
  Arithmetic arithmetic_;
  int64_t groups_;  ///< 0: none
  PlaceTasks tasks_;
};

/// The same of places that are all there.
/// a  [count, O]      b  [count, I], of bfloat16 not where floats are multiplied      returns  [O, I, 1, 1]
template <class T>
at::Tensor sum_over_places(const T* a, int64_t O, const T* b, int64_t I, int64_t count, Arithmetic arithmetic);

}  // namespace osprey::kernels::cpu
