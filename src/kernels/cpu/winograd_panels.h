#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/loops/winograd_rows.h"
#include "kernels/device/launch.h"
#include "osprey/kernels/parallel.h"

/// Weights as what tiles of places are multiplied with; see loops/winograd_rows.h.
namespace osprey::kernels::cpu {

template <class Factor>
constexpr bool kPairs = !std::is_same_v<Factor, float>;

/// Numbers that are multiplied at a time.
template <class Factor>
constexpr int64_t kOfAStep = sizeof(float) / sizeof(Factor);

/// A tile of so many results in a line.
struct TileSize {
  int64_t results;
  int64_t sides() const { return results + 2; }              ///< that it sees
  int64_t transformed() const { return sides() * sides(); }  ///< numbers that are multiplied
};

/// From one matrix to the next: a line of the cache more than it takes, or what is made for the same place of all of
/// them would fall upon the same few places of the cache.
inline int64_t apart(int64_t rows, int64_t columns) { return rows * columns + kPanelColumns; }

/// Weights as a matrix in panels for each number, [transformed, columns / kPanelColumns, steps, kPanelColumns].
/// Factor  float, or Bfloat16: multiplied in pairs
template <class Factor>
struct WinogradPanels {
  /// Of weights that make `columns` channels of `depth`.
  WinogradPanels(int64_t depth_of, int64_t columns_of, const TileSize& size)
      : tile(size),
        depth(depth_of),
        columns(columns_of),
        steps(steps_of(depth, kPairs<Factor>)),
        count(device::blocks_for(columns, kPanelColumns)) {}

  /// Floats from one matrix to the next, and of all of them.
  int64_t matrix() const { return apart(count * steps, kPanelColumns); }
  int64_t floats() const { return tile.transformed() * matrix(); }

  /// weights  [columns, depth, 3, 3], or where they are transposed [depth, columns, 3, 3]      panels  [floats()]
  void pack(const at::Tensor& weights, bool transposed, float* panels) const {
    constexpr int64_t kRowsAtOnce = 32;  // so that their taps stay in the nearest cache
    const int64_t I = weights.size(1), row_step = kTaps * I;
    const at::Tensor rows = weights.permute({0, 2, 3, 1}).contiguous();  // [O, kTaps, I]
    const auto* const from = rows.const_data_ptr<float>();
    parallel_for(count, [&](int64_t panel) {
      const int64_t first = panel * kPanelColumns, own = std::min(columns - first, kPanelColumns);
      const auto transform = kPairs<Factor> ? transform_weights_to_pairs : transform_weights;
      float* const to = panels + panel * steps * kPanelColumns;
      if (transposed) return transform(tile.results, from + row_step - I + first, -I, row_step, depth, to, matrix());
      const auto taps = scratch(kTaps * kRowsAtOnce * kPanelColumns);
      for (int64_t row = 0; row < depth; row += kRowsAtOnce) {
        const int64_t rows_now = std::min(depth - row, kRowsAtOnce), tap_step = rows_now * kPanelColumns;
        for (int64_t tap = 0; tap < kTaps; ++tap)
          pack_across(from + first * row_step + tap * I + row, row_step, own, rows_now, taps.get() + tap * tap_step);
        transform(tile.results, taps.get(), tap_step, kPanelColumns, rows_now,
                  to + row / kOfAStep<Factor> * kPanelColumns, matrix());
      }
    });
  }

  TileSize tile;
  int64_t depth, columns, steps, count;
};

/// Weights that have been packed.
template <class Factor>
struct PackedWeights {
  /// transposed  see WinogradPanels::pack; what has O channels becomes I
  PackedWeights(const at::Tensor& weights, bool transposed, const TileSize& tile)
      : panels(weights.size(transposed ? 0 : 1), weights.size(transposed ? 1 : 0), tile),
        numbers(scratch(panels.floats())) {
    panels.pack(weights, transposed, numbers.get());
  }
  WinogradPanels<Factor> panels;
  Scratch<> numbers;
};

}  // namespace osprey::kernels::cpu
