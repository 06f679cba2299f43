#pragma once
#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/product_arithmetic.h"

/// Places as factors of products that are summed over them.
namespace osprey::kernels::cpu {

/// How some places lie when channels of them are multiplied with each other: those of one side as rows, those of the
/// other as panels of columns. Both are packed, some places at a time if need be, then finished, then multiplied.
class PackedPlaces {
 public:
  PackedPlaces(Arithmetic arithmetic, int64_t count);

  /// Floats for so many channels as rows and as columns.
  int64_t rows_size(int64_t channels) const;
  int64_t columns_size(int64_t channels) const;

  /// Packs the places from `begin` on, up to `end`. Both are even where pairs are multiplied and multiples of
  /// kAmxPlaces where tiles are, as tasks begin (place_tasks.h); but the last `end` is whatever it is.
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

  /// Does what is left to be done with rows when all places are there, for `own` of their channels from `first` on, a
  /// multiple of kPanelColumns.
  void finish_rows(int64_t channels, int64_t first, int64_t own, float* rows) const;
  /// Whether that is anything.
  static bool finishes_rows(Arithmetic arithmetic) { return arithmetic == Arithmetic::kInnerProducts; }
  /// The same with the panels of so many channels, of which `panels` begins with the first.
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

/// Where a task packs its places: from `begin` up to `end` of those that are packed together.
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

}  // namespace osprey::kernels::cpu
