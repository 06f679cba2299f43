#include "kernels/cpu/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/loops/winograd_rows.h"
#include "kernels/cpu/place_products.h"
#include "kernels/device/launch.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Numbers that are multiplied at a time.
template <class Factor>
constexpr int64_t kOfAStep = sizeof(float) / sizeof(Factor);

/// A tile of so many results in a line.
struct TileSize {
  int64_t results;
  int64_t sides() const { return results + 2; }              ///< that it sees
  int64_t transformed() const { return sides() * sides(); }  ///< numbers that are multiplied
};

/// Weights as a matrix in panels for each number, [transformed, columns / kPanelColumns, steps, kPanelColumns].
/// Factor  float, or Bfloat16: multiplied in pairs
template <class Factor>
struct WinogradPanels {
  WinogradPanels(const at::Tensor& weights, bool transposed, const TileSize& tile)
      : depth(weights.size(transposed ? 0 : 1)),
        columns(weights.size(transposed ? 1 : 0)),
        steps(steps_of(depth, kOfAStep<Factor> > 1)),
        panel_count(device::blocks_for(columns, kPanelColumns)),
        panels(at::empty({tile.transformed(), panel_count, steps, kPanelColumns}, weights.options())) {
    const int64_t I = weights.size(1), size = depth * kPanelColumns;
    const at::Tensor rows = weights.permute({0, 2, 3, 1}).contiguous();  // [O, 3, 3, I]
    const auto* const from = rows.const_data_ptr<float>();
    auto* const to = panels.mutable_data_ptr<float>();
    parallel_for(panel_count, [&](int64_t panel) {
      const int64_t first = panel * kPanelColumns;
      constexpr bool kInPlace = std::is_same_v<Factor, float>;
      const auto space = scratch(kInPlace ? 0 : tile.transformed() * size);
      float *const target = to + panel * steps * kPanelColumns, *const own = kInPlace ? target : space.get();
      const int64_t own_step = kInPlace ? matrix() : size;
      if (transposed) {
        transform_weights(tile.results, from + 8 * I + first, -I, 9 * I, depth, own, own_step);
      } else {
        const auto taps = scratch(9 * size);
        pack_across(from + first * 9 * I, std::min(columns - first, kPanelColumns), 9 * I, taps.get());
        transform_weights(tile.results, taps.get(), size, kPanelColumns, depth, own, own_step);
      }
      if constexpr (!kInPlace)
        for (int64_t p = 0; p < tile.transformed(); ++p)
          pack_pairs(own + p * size, kPanelColumns, depth, kPanelColumns, kPanelColumns, target + p * matrix(), size);
    });
  }
  int64_t matrix() const { return panel_count * steps * kPanelColumns; }  ///< floats of one

  int64_t depth, columns, steps, panel_count;
  at::Tensor panels;
};

/// The places of a map in tiles, those at the end of a line or a picture perhaps with fewer.
struct Tiles {
  Tiles(const at::Tensor& map, const TileSize& size)
      : results(size.results),
        height(map.size(2)),
        width(map.size(3)),
        high(device::blocks_for(height, results)),
        wide(device::blocks_for(width, results)),
        count(map.size(0) * high * wide) {}

  /// Calls work(index, number among the places of all pictures) for side x side places of a tile, row by row, from
  /// `before` places before its first on; a place outside of the picture is -1.
  template <class Work>
  void for_places(int64_t tile, int64_t side, int64_t before, const Work& work) const {
    const int64_t picture = tile / (high * wide), line = tile / wide % high * results - before,
                  column = tile % wide * results - before;
    size_t i = 0;
    for (int64_t y = line; y < line + side; ++y)
      for (int64_t x = column; x < column + side; ++x)
        work(i++, y >= 0 && y < height && x >= 0 && x < width ? (picture * height + y) * width + x : -1);
  }
  int64_t results, height, width, high, wide, count;
};

/// Tiles of 4 x 4 results take 9 products for each 16 of those of 2 x 2, but matrices of weights that are as much
/// larger, and more places beyond the picture: not for small maps. What is multiplied in pairs is rounded first, and
/// rounding shows three times as much in them.
TileSize tile_for(const at::Tensor& map, bool in_pairs) {
  constexpr int64_t kLeastSide = 16;
  return {!in_pairs && std::min(map.size(2), map.size(3)) >= kLeastSide ? 4 : 2};
}

/// The channels of the places of tiles as what factors are made of, zeros outside of the picture.
template <class T, class Factor>
class Places {
 public:
  /// side    of what is looked at of a tile
  /// before  places before its first
  Places(const at::Tensor& map, const TileSize& size, int64_t side, int64_t before)
      : tiles_(map, size), map_(device::data<const T>(map)), depth_(map.size(1)), side_(side), before_(before) {}

  /// Those of a tile. space  [side * side, depth], used only where the map is of other numbers
  std::array<const Factor*, kMostSides * kMostSides> of(int64_t tile, float* space) const {
    std::array<const Factor*, kMostSides * kMostSides> result;
    tiles_.for_places(tile, side_, before_, [&](size_t i, int64_t place) {
      if (place < 0) {
        result[i] = zeros_.data();
      } else if constexpr (std::is_same_v<T, Factor>) {
        result[i] = map_ + place * depth_;
      } else {
        result[i] = floats_of(map_ + place * depth_, depth_, space + static_cast<int64_t>(i) * depth_);
      }
    });
    return result;
  }
  std::unique_ptr<float[]> space() const { return scratch(std::is_same_v<T, Factor> ? 0 : side_ * side_ * depth_); }
  int64_t depth() const { return depth_; }

 private:
  Tiles tiles_;
  const T* map_;
  int64_t depth_, side_, before_;
  std::vector<Factor> zeros_ = std::vector<Factor>(static_cast<size_t>(depth_));
};

/// Into how many tasks tiles are divided. What one has at a time should lie in the core's own cache, of a MiB or more;
/// but the fewer tiles, the more often the matrices pass by, so wide maps take more room than that. A result is the
/// same whatever task makes it: there may be one for each thread.
template <class Factor>
int64_t tasks_for(int64_t tiles, const TileSize& tile, const WinogradPanels<Factor>& weights) {
  constexpr int64_t kFloats = 200 << 10, kLeast = 24, kMost = 96;
  constexpr int64_t kPlaces = 96;  // worth a thread's while
  const int64_t fit = kFloats / (tile.transformed() * (weights.steps + weights.columns)),
                size = std::clamp(fit / kLeastRows * kLeastRows, kLeast, kMost);
  const int64_t for_threads = std::min<int64_t>(at::get_num_threads(), tiles * tile.results * tile.results / kPlaces);
  return std::clamp<int64_t>(std::max(device::blocks_for(tiles, size), for_threads), 1, tiles / kLeastRows);
}

/// From one of these matrices to the next: a line of the cache more than it takes, or the numbers of a channel would
/// all fall upon the same few places of the cache.
int64_t apart(int64_t rows, int64_t columns) { return rows * columns + kPanelColumns; }

template <class T, class Factor>
void convolve(const at::Tensor& x, const TileSize& size, const WinogradPanels<Factor>& weights, const float* biases,
              T* y) {
  constexpr bool kInPlace = std::is_same_v<T, Factor>;
  const Tiles tiles(x, size);
  const Places<T, Factor> places(x, size, size.sides(), 1);
  const int64_t transformed = size.transformed(), depth = weights.depth, steps = weights.steps,
                columns = weights.columns, matrix = weights.matrix();
  const auto* const panels = weights.panels.template const_data_ptr<float>();
  const int64_t tasks = tasks_for(tiles.count, size, weights);
  parallel_for(tasks, [&](int64_t task) {
    const int64_t begin = task * tiles.count / tasks, count = (task + 1) * tiles.count / tasks - begin;
    const int64_t factor_step = apart(count, steps), product_step = apart(count, columns),
                  row = steps * kOfAStep<Factor>;
    const auto factors = scratch(transformed * factor_step), products = scratch(transformed * product_step),
               space = places.space(), outside = scratch(size.results * size.results * columns);
    auto* const of_tiles = reinterpret_cast<Factor*>(factors.get());
    for (int64_t tile = 0; tile < count; ++tile) {
      transform_seen(size.results, places.of(begin + tile, space.get()).data(), depth, of_tiles + tile * row,
                     kPanelColumns, factor_step * kOfAStep<Factor>);
      if (row > depth)  // the last one is paired with zero
        for (int64_t p = 0; p < transformed; ++p)
          of_tiles[p * factor_step * kOfAStep<Factor> + tile * row + depth] = Factor{};
    }
    for (int64_t p = 0; p < transformed; ++p)
      (std::is_same_v<Factor, float> ? multiply_rows : multiply_rows_of_pairs)(
          factors.get() + p * factor_step, count, steps, panels + p * matrix, nullptr, columns,
          {panels + (p + 1) % transformed * matrix, matrix}, products.get() + p * product_step);
    for (int64_t tile = 0; tile < count; ++tile) {
      std::array<T*, kMostResults * kMostResults> targets{};
      std::array<Factor*, kMostResults * kMostResults> made;
      tiles.for_places(begin + tile, size.results, 0, [&](size_t i, int64_t place) {
        targets[i] = place >= 0 ? y + place * columns : nullptr;
        made[i] = reinterpret_cast<Factor*>(outside.get()) + static_cast<int64_t>(i) * columns;
        if constexpr (kInPlace)
          if (place >= 0) made[i] = targets[i];
      });
      transform_products(size.results, products.get() + tile * columns, product_step, columns, biases, made.data());
      if constexpr (!kInPlace)
        for (size_t i = 0; i < targets.size(); ++i)
          if (targets[i] != nullptr) round_floats(made[i], columns, targets[i]);
    }
  });
}

/// Many tiles at a time: first what is multiplied of each, then each of the sums over them goes on.
template <class T, class Factor>
at::Tensor weight_gradient(const at::Tensor& gradient, const at::Tensor& x, const TileSize& size) {
  constexpr bool kPairs = !std::is_same_v<Factor, float>;
  constexpr int64_t kChannelsAtOnce = 96 << 10, kLeast = 192, kOfATask = 12;
  const Tiles tiles(x, size);
  const Places<T, Factor> seen(x, size, size.sides(), 1), wanted(gradient, size, size.results, 0);
  const int64_t transformed = size.transformed(), O = wanted.depth(), I = seen.depth(),
                row_panels = device::blocks_for(O, kPanelRows), column_panels = I / kPanelColumns,
                sum_size = column_panels * row_panels * kPanelRows * kPanelColumns;
  const int64_t at_once = std::max(kChannelsAtOnce / (O + I), kLeast), most = std::min(at_once, tiles.count),
                seen_step = apart(most, I), wanted_step = apart(most, O);
  const auto sums = scratch(transformed * sum_size);
  const auto of_x = std::make_unique_for_overwrite<Factor[]>(static_cast<size_t>(transformed * seen_step)),
             of_gradient = std::make_unique_for_overwrite<Factor[]>(static_cast<size_t>(transformed * wanted_step));
  // A sum is the same whoever makes it.
  const int64_t shares = std::min(column_panels, device::blocks_for(at::get_num_threads(), transformed));
  for (int64_t begin = 0; begin < tiles.count; begin += at_once) {
    const int64_t count = std::min(at_once, tiles.count - begin);
    parallel_for(device::blocks_for(count, kOfATask), [&](int64_t task) {
      const auto seen_space = seen.space(), wanted_space = wanted.space();
      for (int64_t tile = task * kOfATask; tile < std::min(count, (task + 1) * kOfATask); ++tile) {
        transform_seen(size.results, seen.of(begin + tile, seen_space.get()).data(), I,
                       of_x.get() + tile * kPanelColumns, count * kPanelColumns, seen_step);
        transform_wanted(size.results, wanted.of(begin + tile, wanted_space.get()).data(), O,
                         of_gradient.get() + tile * O, wanted_step);
      }
    });
    parallel_for(transformed * shares, [&](int64_t task) {
      const int64_t p = task / shares, first = task % shares * column_panels / shares,
                    last = (task % shares + 1) * column_panels / shares;
      const int64_t steps = steps_of(count, kPairs), panel = steps * kPanelRows;
      const auto rows = scratch(row_panels * panel),
                 space = scratch(kPairs ? (last - first) * steps * kPanelColumns : 0);
      const Factor* const columns = of_x.get() + p * seen_step + first * count * kPanelColumns;
      const Factor* const own = of_gradient.get() + p * wanted_step;
      float* const own_sums = sums.get() + p * sum_size + first * row_panels * kPanelRows * kPanelColumns;
      if constexpr (kPairs) {
        pack_pairs(own, O, count, O, kPanelRows, rows.get(), panel);
        for (int64_t i = 0; i < last - first; ++i)
          pack_pairs(columns + i * count * kPanelColumns, kPanelColumns, count, kPanelColumns, kPanelColumns,
                     space.get() + i * steps * kPanelColumns, 0);
        add_tiles_of_pairs(rows.get(), row_panels, space.get(), last - first, steps, {}, {}, /*goes_on=*/begin > 0,
                           own_sums);
      } else {
        pack_panels(own, O, count, O, kPanelRows, rows.get(), panel);
        add_tiles(rows.get(), row_panels, columns, last - first, count, {}, {}, /*goes_on=*/begin > 0, own_sums);
      }
    });
  }
  const at::Tensor result = at::empty({O, 3, 3, I}, x.options().dtype(at::kFloat));
  auto* const taps = result.mutable_data_ptr<float>();
  parallel_for(row_panels, [&](int64_t i) {
    const int64_t row = i * kPanelRows;
    for (int64_t j = 0; j < column_panels; ++j)
      transform_sums(size.results, sums.get() + (j * row_panels + i) * kPanelRows * kPanelColumns, sum_size,
                     std::min(kPanelRows, O - row), taps + row * 9 * I + j * kPanelColumns, I, 9 * I);
  });
  return result;
}

/// Calls `work` with null pointers to a number of a map and to what is multiplied.
template <class Work>
void with_factors(at::ScalarType maps, const Work& work) {
  with_elements(maps, [&](auto* type) {
    if constexpr (std::is_same_v<decltype(type), Bfloat16*>)
      if (multiplies_pairs(maps)) return work(type, type);
    work(type, static_cast<float*>(nullptr));
  });
}

}  // namespace

bool fits_winograd(const at::Tensor& map, int64_t O, int64_t I) {
  return std::min(O, I) >= kWinogradChannels && I % kPanelColumns == 0 &&
         Tiles(map, tile_for(map, multiplies_pairs(map.scalar_type()))).count >= kLeastRows;
}

void convolve_in_tiles(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                       const at::Tensor& result) {
  with_factors(x.scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    const TileSize size = tile_for(x, !std::is_same_v<Factor, float>);
    const WinogradPanels<Factor> panels(weights, transposed, size);
    convolve(x, size, panels, device::data<const float>(biases),
             device::data<std::remove_pointer_t<decltype(type)>>(result));
  });
}

at::Tensor weight_gradient_in_tiles(const at::Tensor& gradient, const at::Tensor& x) {
  at::Tensor result;
  with_factors(x.scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    result = weight_gradient<std::remove_pointer_t<decltype(type)>, Factor>(
        gradient, x, tile_for(x, !std::is_same_v<Factor, float>));
  });
  return result;
}

}  // namespace osprey::kernels::cpu
