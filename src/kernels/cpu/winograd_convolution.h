#pragma once
#include <ATen/Parallel.h>

#include "kernels/cpu/winograd_panels.h"
#include "kernels/cpu/winograd_tiles.h"

/// A convolution by tiles, whatever is done with its results.
namespace osprey::kernels::cpu {

/// Some tiles of one map that follow each other.
struct TileGroup {
  size_t map;
  int64_t number;  ///< among the groups of its map
  int64_t first, count;
};

/// Groups of at most so many tiles. They do not depend on the number of threads.
inline std::vector<TileGroup> groups_of(const Tiles& tiles, int64_t most) {
  constexpr size_t kGroups = 64;  // of a map, at least, if there are as many tiles
  std::vector<TileGroup> result;
  result.reserve(static_cast<size_t>(tiles.count() / most) + kGroups * tiles.maps());
  for (size_t map = 0; map < tiles.maps(); ++map) {
    const int64_t all = tiles.count_of(map), size = std::clamp<int64_t>(all / static_cast<int64_t>(kGroups), 1, most);
    for (int64_t first = 0; first < all; first += size)
      result.push_back({map, first / size, tiles.first_of(map) + first, std::min(size, all - first)});
  }
  return result;
}

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
                             std::max<int64_t>(tiles / kLeastRows, 1));
}

/// Where the results of a tile are made.
template <class Factor>
struct MadeTile {
  std::array<int64_t, kMostResults * kMostResults> places;  ///< of the map; -1: beyond the picture
  std::array<Factor*, kMostResults * kMostResults> made;    ///< results beyond the picture, aside
};

/// Products of what tiles see with the weights.
///
/// groups   of all tiles
/// results  first places of each map of them; null where they are made aside
/// finish   finish(first tile, last + 1) makes what a task finishes results with: begin(group), then for each of its
///          tiles add(where it is made, where the next is made, products, from one matrix of them to the next), then
///          end()
template <class T, class Factor, class Finish>
void convolve(const Places<T, Factor>& places, const WinogradPanels<Factor>& weights, const float* panels,
              const std::vector<Factor*>& results, const std::vector<TileGroup>& groups, const Finish& finish) {
  const TileSize& size = weights.tile;
  const Tiles& tiles = places.tiles();
  const int64_t transformed = size.transformed(), depth = weights.depth, steps = weights.steps,
                columns = weights.columns, matrix = weights.matrix();
  const int64_t tasks = tasks_for(tiles.count(), weights);
  const auto group_from = [&](int64_t task) {
    return std::ranges::lower_bound(groups, task * tiles.count() / tasks, {}, &TileGroup::first);
  };
  parallel_for(tasks, [&](int64_t task) {
    const auto first_group = group_from(task), last_group = group_from(task + 1);
    if (first_group == last_group) return;
    const int64_t begin = first_group->first,
                  count = (last_group == groups.end() ? tiles.count() : last_group->first) - begin;
    const int64_t multiplied = std::max(count, kLeastRows);  // with zeros for tiles that are missing
    const int64_t factor_step = apart(multiplied, steps), product_step = apart(multiplied, columns),
                  row = steps * kOfAStep<Factor>;
    const auto factors = scratch(transformed * factor_step), products = scratch(transformed * product_step),
               outside = scratch(size.results * size.results * columns);
    auto* const of_tiles = reinterpret_cast<Factor*>(factors.get());
    TileByTile<T, Factor> seen(places, begin, begin + count);
    for (int64_t tile = 0; tile < count; ++tile) {
      const auto own = seen.next();
      transform_seen(size.results, own.places(), own.pending(), depth, of_tiles + tile * row, kPanelColumns,
                     factor_step * kOfAStep<Factor>);
      if (row > depth)  // the last one is paired with zero
        for (int64_t p = 0; p < transformed; ++p)
          of_tiles[p * factor_step * kOfAStep<Factor> + tile * row + depth] = Factor{};
    }
    for (int64_t p = 0; count < multiplied && p < transformed; ++p)
      std::fill_n(factors.get() + p * factor_step + count * steps, (multiplied - count) * steps, 0.0f);
    for (int64_t p = 0; p < transformed; ++p) {
      const float *const rows = factors.get() + p * factor_step, *const next = panels + (p + 1) % transformed * matrix;
      float* const result = products.get() + p * product_step;
      if constexpr (kPairs<Factor>) {
        multiply_rows_of_pairs(rows, multiplied, steps, panels + p * matrix, nullptr, columns, {next, matrix}, result);
      } else {
        multiply_rows(rows, multiplied, steps, panels + p * matrix, nullptr, columns, {next, matrix}, result);
      }
    }
    const auto made_of = [&](int64_t tile) {
      MadeTile<Factor> made{};
      Factor* const map = results[tiles.map_of(tile)];
      tiles.for_places(tile, size.results, 0, [&](size_t i, int64_t place) {
        made.places[i] = place;
        made.made[i] = map != nullptr && place >= 0
                           ? map + place * columns
                           : reinterpret_cast<Factor*>(outside.get()) + static_cast<int64_t>(i) * columns;
      });
      return made;
    };
    auto own = finish(begin, begin + count);
    auto made = made_of(begin);
    for (auto group = first_group; group != last_group; ++group) {
      own.begin(*group);
      for (int64_t tile = group->first; tile < group->first + group->count; ++tile) {
        const auto next = made_of(std::min(tile + 1, begin + count - 1));
        own.add(made, next, products.get() + (tile - begin) * columns, product_step);
        made = next;
      }
      own.end();
    }
  });
}

/// Results as they are, with biases, clamped.
template <class T, class Factor>
class PlainResults {
 public:
  PlainResults(const WinogradPanels<Factor>& weights, const float* biases, const Clamp* clamp,
               const std::vector<T*>& results)
      : weights_(weights), biases_(biases), clamp_(clamp), results_(results) {}

  void begin(const TileGroup& group) { map_ = results_[group.map]; }
  void add(const MadeTile<Factor>& made, const MadeTile<Factor>& next, const float* products,
           int64_t product_step) const {
    const int64_t columns = weights_.columns;
    transform_products(weights_.tile.results, products, product_step, columns, biases_, clamp_, made.made.data(),
                       next.made.data());
    if constexpr (!std::is_same_v<T, Factor>)
      for (int64_t i = 0; i < weights_.tile.results * weights_.tile.results; ++i)
        if (const int64_t place = made.places[static_cast<size_t>(i)]; place >= 0)
          round_floats(made.made[static_cast<size_t>(i)], columns, map_ + place * columns);
  }
  void end() const {}

 private:
  const WinogradPanels<Factor>& weights_;
  const float* biases_;
  const Clamp* clamp_;
  const std::vector<T*>& results_;
  T* map_ = nullptr;
};

/// biases, clamp  may be null
template <class T, class Factor>
void convolve_plainly(at::TensorList maps, const WinogradPanels<Factor>& weights, const float* panels,
                      const float* biases, const Clamp* clamp, at::TensorList results) {
  const Places<T, Factor> places(maps, /*affines=*/{}, weights.tile, weights.tile.sides(), 1);
  const std::vector<T*> y = first_places<T>(results);
  std::vector<Factor*> made(maps.size());  // what has to be rounded is made aside
  if constexpr (std::is_same_v<T, Factor>) made = y;
  convolve(places, weights, panels, made, groups_of(places.tiles(), 1),
           [&](int64_t, int64_t) { return PlainResults<T, Factor>(weights, biases, clamp, y); });
}

}  // namespace osprey::kernels::cpu
