#include "kernels/cpu/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/loops/winograd_rows.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/device/launch.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

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
int64_t apart(int64_t rows, int64_t columns) { return rows * columns + kPanelColumns; }

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

/// The places of maps in tiles, those at the end of a line or a picture perhaps with fewer.
class Tiles {
 public:
  Tiles(at::TensorList maps, const TileSize& size) : results_(size.results) {
    for (const at::Tensor& map : maps) {
      maps_.push_back({map.size(2), map.size(3), device::blocks_for(map.size(2), results_),
                       device::blocks_for(map.size(3), results_), count_});
      count_ += map.size(0) * maps_.back().high * maps_.back().wide;
    }
  }
  int64_t count() const { return count_; }

  /// Calls work(index, map, number among the places of all pictures of that map) for side x side places of a tile, row
  /// by row, from `before` places before its first on; a place outside of the picture is -1.
  template <class Work>
  void for_places(int64_t tile, int64_t side, int64_t before, const Work& work) const {
    size_t number = maps_.size() - 1;
    while (maps_[number].first > tile) --number;
    const Map& map = maps_[number];
    const int64_t own = tile - map.first, picture = own / (map.high * map.wide),
                  line = own / map.wide % map.high * results_ - before, column = own % map.wide * results_ - before;
    size_t i = 0;
    for (int64_t y = line; y < line + side; ++y)
      for (int64_t x = column; x < column + side; ++x)
        work(i++, number,
             y >= 0 && y < map.height && x >= 0 && x < map.width ? (picture * map.height + y) * map.width + x : -1);
  }

 private:
  struct Map {
    int64_t height, width, high, wide;
    int64_t first;  ///< of its tiles
  };
  int64_t results_, count_ = 0;
  std::vector<Map> maps_;
};

/// Tiles of 4 x 4 results take 9 products for each 16 of those of 2 x 2, but matrices of weights that are as much
/// larger, and more places beyond the picture: not where all maps are small. What is multiplied in pairs is rounded
/// first, which shows the more the larger tiles are: tiles of 3 x 3 are off by 0.6 %, those of 4 x 4 would be by 1.2 %.
TileSize tile_for(at::TensorList maps, bool in_pairs) {
  constexpr int64_t kLeastSide = 16;
  const bool small =
      std::ranges::all_of(maps, [](const at::Tensor& map) { return std::min(map.size(2), map.size(3)) < kLeastSide; });
  return {small ? 2 : in_pairs ? 3 : 4};
}

template <class T>
std::vector<T*> first_places(at::TensorList maps) {
  std::vector<T*> result;
  for (const at::Tensor& map : maps) result.push_back(device::data<T>(map));
  return result;
}

/// The channels of the places of tiles as what factors are made of, zeros outside of the picture.
template <class T, class Factor>
class Places {
 public:
  /// side    of what is looked at of a tile
  /// before  places before its first
  Places(at::TensorList maps, const TileSize& size, int64_t side, int64_t before)
      : tiles_(maps, size), maps_(first_places<const T>(maps)), depth_(maps[0].size(1)), side_(side), before_(before) {}

  using Pointers = std::array<const Factor*, kMostSides * kMostSides>;

  /// Those of a tile. space  [side * side, depth], needed only where maps are of other numbers
  Pointers of(int64_t tile, float* space = nullptr) const {
    Pointers result;
    tiles_.for_places(tile, side_, before_, [&](size_t i, size_t map, int64_t place) {
      if (place < 0) {
        result[i] = zeros_.data();
      } else if constexpr (std::is_same_v<T, Factor>) {
        result[i] = maps_[map] + place * depth_;
      } else {
        result[i] = floats_of(maps_[map] + place * depth_, depth_, space + static_cast<int64_t>(i) * depth_);
      }
    });
    return result;
  }
  /// Those of a tile that is not there.
  Pointers none() const {
    Pointers result;
    result.fill(zeros_.data());
    return result;
  }
  Scratch<> space() const { return scratch(std::is_same_v<T, Factor> ? 0 : side_ * side_ * depth_); }
  int64_t depth() const { return depth_; }
  int64_t tiles() const { return tiles_.count(); }

 private:
  Tiles tiles_;
  std::vector<const T*> maps_;
  int64_t depth_, side_, before_;
  std::vector<Factor> zeros_ = std::vector<Factor>(static_cast<size_t>(depth_));
};

/// Into how many tasks tiles are divided, if there are enough as many for each thread. What one has at a time should
/// lie in the core's own cache, of a MiB or more; but the fewer tiles, the more often the matrices pass by, so wide
/// maps take more room than that. A result is the same whatever task makes it.
template <class Factor>
int64_t tasks_for(int64_t tiles, const WinogradPanels<Factor>& weights) {
  const TileSize& tile = weights.tile;
  constexpr int64_t kFloats = 200 << 10, kLeast = 24, kMost = 96;
  constexpr int64_t kPlaces = 96;  // worth a thread's while
  const int64_t fit = kFloats / (tile.transformed() * (weights.steps + weights.columns)),
                size = std::clamp(fit / kLeastRows * kLeastRows, kLeast, kMost);
  const int64_t threads = std::clamp<int64_t>(tiles * tile.results * tile.results / kPlaces, 1, at::get_num_threads());
  return std::clamp<int64_t>(device::blocks_for(device::blocks_for(tiles, size), threads) * threads, 1,
                             tiles / kLeastRows);
}

template <class T, class Factor>
void convolve(at::TensorList maps, const WinogradPanels<Factor>& weights, const float* panels, const float* biases,
              const Clamp* clamp, at::TensorList results) {
  constexpr bool kInPlace = std::is_same_v<T, Factor>;
  const TileSize& size = weights.tile;
  const Tiles tiles(maps, size);
  const Places<T, Factor> places(maps, size, size.sides(), 1);
  const std::vector<T*> y = first_places<T>(results);
  const int64_t transformed = size.transformed(), depth = weights.depth, steps = weights.steps,
                columns = weights.columns, matrix = weights.matrix();
  const int64_t tasks = tasks_for(tiles.count(), weights);
  parallel_for(tasks, [&](int64_t task) {
    const int64_t begin = task * tiles.count() / tasks, count = (task + 1) * tiles.count() / tasks - begin;
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
    for (int64_t p = 0; p < transformed; ++p) {
      const float *const rows = factors.get() + p * factor_step, *const next = panels + (p + 1) % transformed * matrix;
      float* const result = products.get() + p * product_step;
      if constexpr (kPairs<Factor>) {
        multiply_rows_of_pairs(rows, count, steps, panels + p * matrix, nullptr, columns, {next, matrix}, result);
      } else {
        multiply_rows(rows, count, steps, panels + p * matrix, nullptr, columns, {next, matrix}, result);
      }
    }
    // Where the results of a tile are written: those beyond the picture, and those to be rounded, aside.
    const auto made_of = [&](int64_t tile) {
      std::array<Factor*, kMostResults * kMostResults> made{};
      tiles.for_places(begin + tile, size.results, 0, [&](size_t i, size_t map, int64_t place) {
        made[i] = reinterpret_cast<Factor*>(outside.get()) + static_cast<int64_t>(i) * columns;
        if constexpr (kInPlace)
          if (place >= 0) made[i] = y[map] + place * columns;
      });
      return made;
    };
    auto made = made_of(0);
    for (int64_t tile = 0; tile < count; ++tile) {
      const auto next = made_of(std::min(tile + 1, count - 1));
      transform_products(size.results, products.get() + tile * columns, product_step, columns, biases, clamp,
                         made.data(), next.data());
      if constexpr (!kInPlace)
        tiles.for_places(begin + tile, size.results, 0, [&](size_t i, size_t map, int64_t place) {
          if (place >= 0) round_floats(made[i], columns, y[map] + place * columns);
        });
      made = next;
    }
  });
}

/// Many tiles at a time: first what is multiplied of each, then each of the sums over them goes on.
template <class T, class Factor>
at::Tensor weight_gradient(at::TensorList gradients, at::TensorList maps, const TileSize& size) {
  constexpr int64_t kChannelsAtOnce = 96 << 10, kLeast = 192, kOfATask = 12;  // tiles
  constexpr int64_t kTogether = kOfAStep<Factor>;
  const Places<T, Factor> seen(maps, size, size.sides(), 1), wanted(gradients, size, size.results, 0);
  const int64_t tiles = seen.tiles(), transformed = size.transformed(), O = wanted.depth(), I = seen.depth(),
                row_panels = device::blocks_for(O, kPanelRows), column_panels = I / kPanelColumns,
                sum_size = column_panels * row_panels * kPanelRows * kPanelColumns;
  const int64_t at_once = std::max(kChannelsAtOnce / (O + I), kLeast) / kTogether * kTogether,
                most = device::blocks_for(std::min(at_once, tiles), kTogether), seen_step = apart(most, I),
                row_step = row_step_for(O), wanted_step = apart(most, row_step);
  const auto sums = scratch(transformed * sum_size), of_x = scratch(transformed * seen_step),
             of_gradient = scratch(transformed * wanted_step);
  // About as many tasks for each thread. (A sum is the same whoever makes it.)
  constexpr int64_t kLeastPanels = 4;  // of a task: what the widest tile has
  const int64_t threads = at::get_num_threads(),
                shares = transformed % threads == 0 ? 1 : std::clamp<int64_t>(column_panels / kLeastPanels, 1, threads);
  for (int64_t begin = 0; begin < tiles; begin += at_once) {
    const int64_t end = std::min(begin + at_once, tiles), steps = device::blocks_for(end - begin, kTogether),
                  panel = steps * kPanelColumns;
    parallel_for(device::blocks_for(end - begin, kOfATask), [&](int64_t task) {
      const auto seen_space = seen.space(), wanted_space = wanted.space();
      const int64_t first = begin + task * kOfATask;
      for (int64_t tile = first; tile < std::min(first + kOfATask, end); tile += kTogether) {
        const int64_t step = (tile - begin) / kTogether;
        float *const to_x = of_x.get() + step * kPanelColumns, *const to_gradient = of_gradient.get() + step * row_step;
        if constexpr (kPairs<Factor>) {
          const auto other = [&](const auto& places) { return tile + 1 < end ? places.of(tile + 1) : places.none(); };
          transform_seen_to_pairs(size.results, seen.of(tile).data(), other(seen).data(), I, to_x, panel, seen_step);
          transform_wanted_to_pairs(size.results, wanted.of(tile).data(), other(wanted).data(), O, to_gradient,
                                    wanted_step);
        } else {
          transform_seen(size.results, seen.of(tile, seen_space.get()).data(), I, to_x, panel, seen_step);
          transform_wanted(size.results, wanted.of(tile, wanted_space.get()).data(), O, to_gradient, wanted_step);
        }
      }
    });
    parallel_for(transformed * shares, [&](int64_t task) {
      const int64_t p = task / shares, first = task % shares * column_panels / shares,
                    last = (task % shares + 1) * column_panels / shares;
      (kPairs<Factor> ? add_tiles_of_pairs : add_tiles)(
          of_gradient.get() + p * wanted_step, row_step, row_panels, of_x.get() + p * seen_step + first * panel,
          last - first, steps, {}, {},
          /*goes_on=*/begin > 0, sums.get() + p * sum_size + first * row_panels * kPanelRows * kPanelColumns);
    });
  }
  const at::Tensor result = at::empty({O, 3, 3, I}, maps[0].options().dtype(at::kFloat));
  auto* const taps = result.mutable_data_ptr<float>();
  parallel_for(row_panels, [&](int64_t i) {
    const int64_t row = i * kPanelRows;
    for (int64_t j = 0; j < column_panels; ++j)
      transform_sums(size.results, sums.get() + (j * row_panels + i) * kPanelRows * kPanelColumns, sum_size,
                     std::min(kPanelRows, O - row), taps + row * kTaps * I + j * kPanelColumns, I, kTaps * I);
  });
  return result;
}

}  // namespace

bool fits_winograd(at::TensorList maps, int64_t O, int64_t I) {
  return std::min(O, I) >= kWinogradChannels && I % kPanelColumns == 0 &&
         Tiles(maps, tile_for(maps, arithmetic_for(maps[0].scalar_type()) != Arithmetic::kFloats)).count() >=
             kLeastRows;
}

void convolve_in_tiles(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                       at::TensorList results) {
  with_factors(maps[0].scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    const WinogradPanels<Factor> panels(weights.size(transposed ? 0 : 1), weights.size(transposed ? 1 : 0),
                                        tile_for(maps, kPairs<Factor>));
    const auto packed = scratch(panels.floats());
    panels.pack(weights, transposed, packed.get());
    convolve<std::remove_pointer_t<decltype(type)>>(maps, panels, packed.get(), device::data<const float>(biases),
                                                    /*clamp=*/nullptr, results);
  });
}

at::Tensor pack_for_tiles(const at::Tensor& map, const at::Tensor& weights) {
  at::Tensor result;
  with_factors(map.scalar_type(), [&](auto*, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    const WinogradPanels<Factor> panels(weights.size(1), weights.size(0), tile_for(map, kPairs<Factor>));
    result = at::zeros({panels.floats()}, weights.options());  // there are gaps between matrices
    panels.pack(weights, /*transposed=*/false, result.mutable_data_ptr<float>());
  });
  return result;
}

int64_t packed_size(const at::Tensor& map, int64_t columns) {
  int64_t size = 0;
  with_factors(map.scalar_type(), [&](auto*, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    size = WinogradPanels<Factor>(map.size(1), columns, tile_for(map, kPairs<Factor>)).floats();
  });
  return size;
}

void convolve_by_packed(const at::Tensor& map, const at::Tensor& packed, const at::Tensor& biases,
                        const Epilogue& limits, const at::Tensor& result) {
  with_factors(map.scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    const WinogradPanels<Factor> panels(map.size(1), biases.numel(), tile_for(map, kPairs<Factor>));
    const Clamp clamp{limits.low, limits.high};
    convolve<std::remove_pointer_t<decltype(type)>>(map, panels, packed.const_data_ptr<float>(),
                                                    biases.const_data_ptr<float>(), &clamp, result);
  });
}

at::Tensor weight_gradient_in_tiles(at::TensorList gradients, at::TensorList maps) {
  at::Tensor result;
  with_factors(maps[0].scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    result =
        weight_gradient<std::remove_pointer_t<decltype(type)>, Factor>(gradients, maps, tile_for(maps, kPairs<Factor>));
  });
  return result;
}

}  // namespace osprey::kernels::cpu
