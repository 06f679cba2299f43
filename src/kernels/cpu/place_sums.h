#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>
#include <vector>

#include "kernels/cpu/packed_places.h"
#include "kernels/cpu/place_tasks.h"
#include "kernels/cpu/product_arithmetic.h"

/// Products of the channels of places with each other, summed over places: gradients of matrices of weights.
namespace osprey::kernels::cpu {

/// Sums over places of what each has of O channels times what it has of I others: the gradient of a matrix of weights.
/// As long as matrices are small, places are gathered by groups, each of which has sums of its own. A larger one has
/// one sum: some tasks pack their places, then each thread adds what these make to some of the columns.
class PlaceSums {
 public:
  /// places  at least kLeastPlaces
  PlaceSums(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic);

  /// By which the places come.
  const PlaceTasks& tasks() const { return tasks_; }

  /// What a task after the one that has just packed would read: groups fetch it as they multiply.
  struct Next {
    Ahead first, second;
  };
  using Pack = c10::function_ref<Next(int64_t task, int64_t begin, int64_t end, const PlacePiece& piece)>;
  /// Calls `pack(task, first place, last + 1, piece)` for all tasks, on several threads at once. It has to fill the
  /// rows and the columns of the piece.
  /// returns  [O, I, 1, 1]
  at::Tensor of(const Pack& pack) const;

 private:
  static int64_t groups_for(int64_t O, int64_t I, int64_t places, Arithmetic arithmetic);
  at::Tensor by_groups(const Pack& pack) const;
  at::Tensor by_columns(const Pack& pack) const;

  /// What some successive tasks have packed.
  struct Part;
  std::vector<Part> packed(int64_t first, int64_t count, const Pack& pack) const;
  /// Adds them to the tiles of some columns from channel `first` on.
  void add(const std::vector<Part>& parts, int64_t first, int64_t own, bool goes_on, float* tiles) const;

  at::Tensor tiles(int64_t groups) const;  ///< [groups, column panels, row panels, rows of a panel, kPanelColumns]
  /// Brings a tile to where it belongs in a result.
  void unpack(const float* tile, int64_t panel, int64_t row_panel, float* result) const;

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
