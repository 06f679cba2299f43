#include "kernels/cpu/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/floats_of_map.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/cpu/loops/winograd_rows.h"
#include "kernels/device/launch.h"
#include "kernels/with_elements.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Weights as 16 matrices in panels, [16, columns / kPanelColumns, depth, kPanelColumns].
struct WinogradPanels {
  WinogradPanels(const at::Tensor& weights, bool transposed)
      : depth(weights.size(transposed ? 0 : 1)),
        columns(weights.size(transposed ? 1 : 0)),
        panel_count(device::blocks_for(columns, kPanelColumns)),
        panels(at::empty({kTransformed, panel_count, depth, kPanelColumns}, weights.options())) {
    const int64_t I = weights.size(1), size = depth * kPanelColumns;
    const at::Tensor rows = weights.permute({0, 2, 3, 1}).contiguous();  // [O, 3, 3, I]
    const auto* const from = rows.const_data_ptr<float>();
    auto* const to = panels.mutable_data_ptr<float>();
    parallel_for(panel_count, [&](int64_t panel) {
      const int64_t first = panel * kPanelColumns;
      float* const own = to + panel * size;
      if (transposed) {
        transform_weights(from + 8 * I + first, -I, 9 * I, depth, own, matrix());
      } else {
        const auto taps = scratch(9 * size);
        pack_across(from + first * 9 * I, std::min(columns - first, kPanelColumns), 9 * I, taps.get());
        transform_weights(taps.get(), size, kPanelColumns, depth, own, matrix());
      }
    });
  }
  int64_t matrix() const { return panel_count * depth * kPanelColumns; }  ///< floats of one

  int64_t depth, columns, panel_count;
  at::Tensor panels;
};

/// Tiles of 2 x 2 places, those at the end of a line or a picture perhaps with fewer.
struct Tiles {
  explicit Tiles(const at::Tensor& map)
      : height(map.size(2)),
        width(map.size(3)),
        high((height + 1) / 2),
        wide((width + 1) / 2),
        count(map.size(0) * high * wide) {}

  /// Calls work(index, number among the places of all pictures) for the places of a tile, row by row, from `before`
  /// places before its first on; a place outside of the picture is -1.
  template <int kSide, class Work>
  void for_places(int64_t tile, int64_t before, const Work& work) const {
    const int64_t picture = tile / (high * wide), line = tile / wide % high * 2 - before,
                  column = tile % wide * 2 - before;
    for (int i = 0; i < kSide * kSide; ++i) {
      const int64_t y = line + i / kSide, x = column + i % kSide;
      work(static_cast<size_t>(i),
           y >= 0 && y < height && x >= 0 && x < width ? (picture * height + y) * width + x : -1);
    }
  }
  int64_t height, width, high, wide, count;
};

/// The channels of places as floats, zeros outside of the picture.
template <class T, int kSide>
class Places {
 public:
  Places(const at::Tensor& map, int64_t before)
      : tiles_(map), map_(device::data<const T>(map)), depth_(map.size(1)), before_(before) {}

  /// Those of a tile. space  [kSide * kSide, depth], used only where the map is not of floats
  std::array<const float*, kSide * kSide> of(int64_t tile, float* space) const {
    std::array<const float*, kSide * kSide> result;
    tiles_.for_places<kSide>(tile, before_, [&](size_t i, int64_t place) {
      result[i] = place >= 0 ? floats_of(map_ + place * depth_, depth_, space + static_cast<int64_t>(i) * depth_)
                             : zeros_.data();
    });
    return result;
  }
  std::unique_ptr<float[]> space() const { return scratch(std::is_same_v<T, float> ? 0 : kSide * kSide * depth_); }
  int64_t depth() const { return depth_; }

 private:
  Tiles tiles_;
  const T* map_;
  int64_t depth_, before_;
  std::vector<float> zeros_ = std::vector<float>(static_cast<size_t>(depth_));
};

template <class T>
Places<T, kSides> seen_in(const at::Tensor& x) {
  return {x, 1};
}

/// Into how many tasks tiles are divided. What one has at a time should lie in the core's own cache, of a MiB or more;
/// but the fewer tiles, the more often the matrices pass by, so wide maps take more room than that. A result is the
/// same whatever task makes it: there may be one for each thread.
int64_t tasks_for(int64_t tiles, const WinogradPanels& weights) {
  constexpr int64_t kFloats = 200 << 10, kLeast = 24, kMost = 96;
  const int64_t fit = kFloats / (kTransformed * (weights.depth + weights.columns)),
                size = std::clamp(fit / kLeastRows * kLeastRows, kLeast, kMost);
  const int64_t for_threads = std::min<int64_t>(at::get_num_threads(), tiles / kLeast);
  return std::clamp<int64_t>(std::max(device::blocks_for(tiles, size), for_threads), 1, tiles / kLeastRows);
}

/// From one of 16 matrices to the next: a line of the cache more than it takes, or the numbers of a channel would all
/// fall upon the same few places of the cache.
int64_t apart(int64_t rows, int64_t columns) { return rows * columns + kPanelColumns; }

template <class T>
void convolve(const at::Tensor& x, const WinogradPanels& weights, const float* biases, T* y) {
  const Tiles tiles(x);
  const auto places = seen_in<T>(x);
  const int64_t depth = weights.depth, columns = weights.columns, matrix = weights.matrix();
  const auto* const panels = weights.panels.const_data_ptr<float>();
  const int64_t tasks = tasks_for(tiles.count, weights);
  parallel_for(tasks, [&](int64_t task) {
    const int64_t begin = task * tiles.count / tasks, count = (task + 1) * tiles.count / tasks - begin;
    const int64_t factor_step = apart(count, depth), product_step = apart(count, columns);
    const auto factors = scratch(kTransformed * factor_step), products = scratch(kTransformed * product_step),
               space = places.space(), outside = scratch(4 * columns);
    for (int64_t tile = 0; tile < count; ++tile)
      transform_seen(places.of(begin + tile, space.get()).data(), depth, factors.get() + tile * depth, kPanelColumns,
                     factor_step);
    for (int64_t p = 0; p < kTransformed; ++p)
      multiply_rows(factors.get() + p * factor_step, count, depth, panels + p * matrix, nullptr, columns,
                    {panels + (p + 1) % kTransformed * matrix, matrix}, products.get() + p * product_step);
    for (int64_t tile = 0; tile < count; ++tile) {
      std::array<T*, 4> targets;
      std::array<float*, 4> made;
      tiles.for_places<2>(begin + tile, 0, [&](size_t i, int64_t place) {
        targets[i] = place >= 0 ? y + place * columns : nullptr;
        made[i] = outside.get() + static_cast<int64_t>(i) * columns;
        if constexpr (std::is_same_v<T, float>)
          if (place >= 0) made[i] = targets[i];
      });
      transform_products(products.get() + tile * columns, product_step, columns, biases, made.data());
      if constexpr (!std::is_same_v<T, float>)
        for (size_t i = 0; i < targets.size(); ++i)
          if (targets[i] != nullptr) round_floats(made[i], columns, targets[i]);
    }
  });
}

/// Many tiles at a time: first what is multiplied of each, then each of the 16 sums over them goes on.
template <class T>
at::Tensor weight_gradient(const at::Tensor& gradient, const at::Tensor& x) {
  constexpr int64_t kChannelsAtOnce = 96 << 10, kLeast = 192, kOfATask = 12;
  const Tiles tiles(x);
  const auto seen = seen_in<T>(x);
  const Places<T, 2> wanted(gradient, 0);
  const int64_t O = wanted.depth(), I = seen.depth(), row_panels = device::blocks_for(O, kPanelRows),
                column_panels = I / kPanelColumns, sum_size = column_panels * row_panels * kPanelRows * kPanelColumns;
  const int64_t at_once = std::max(kChannelsAtOnce / (O + I), kLeast), most = std::min(at_once, tiles.count),
                seen_step = apart(most, I), wanted_step = apart(most, O);
  const auto sums = scratch(kTransformed * sum_size), of_x = scratch(kTransformed * seen_step),
             of_gradient = scratch(kTransformed * wanted_step);
  // A sum is the same whoever makes it.
  const int64_t shares = std::min(column_panels, device::blocks_for(at::get_num_threads(), kTransformed));
  for (int64_t begin = 0; begin < tiles.count; begin += at_once) {
    const int64_t count = std::min(at_once, tiles.count - begin);
    parallel_for(device::blocks_for(count, kOfATask), [&](int64_t task) {
      const auto seen_space = seen.space(), wanted_space = wanted.space();
      for (int64_t tile = task * kOfATask; tile < std::min(count, (task + 1) * kOfATask); ++tile) {
        transform_seen(seen.of(begin + tile, seen_space.get()).data(), I, of_x.get() + tile * kPanelColumns,
                       count * kPanelColumns, seen_step);
        transform_wanted(wanted.of(begin + tile, wanted_space.get()).data(), O, of_gradient.get() + tile * O,
                         wanted_step);
      }
    });
    parallel_for(kTransformed * shares, [&](int64_t task) {
      const int64_t p = task / shares, first = task % shares * column_panels / shares,
                    last = (task % shares + 1) * column_panels / shares;
      const int64_t panel = count * kPanelRows;
      const auto rows = scratch(row_panels * panel);
      pack_panels(of_gradient.get() + p * wanted_step, O, count, O, kPanelRows, rows.get(), panel);
      add_tiles(rows.get(), row_panels, of_x.get() + p * seen_step + first * count * kPanelColumns, last - first, count,
                {}, {}, /*goes_on=*/begin > 0,
                sums.get() + p * sum_size + first * row_panels * kPanelRows * kPanelColumns);
    });
  }
  const at::Tensor result = at::empty({O, 3, 3, I}, x.options().dtype(at::kFloat));
  auto* const taps = result.mutable_data_ptr<float>();
  parallel_for(row_panels, [&](int64_t i) {
    const int64_t row = i * kPanelRows;
    for (int64_t j = 0; j < column_panels; ++j)
      transform_sums(sums.get() + (j * row_panels + i) * kPanelRows * kPanelColumns, sum_size,
                     std::min(kPanelRows, O - row), taps + row * 9 * I + j * kPanelColumns, I, 9 * I);
  });
  return result;
}

}  // namespace

bool fits_winograd(const at::Tensor& map, int64_t O, int64_t I) {
  return std::min(O, I) >= kWinogradChannels && I % kPanelColumns == 0 && Tiles(map).count >= kLeastRows;
}

void convolve_in_tiles(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                       const at::Tensor& result) {
  const WinogradPanels panels(weights, transposed);
  with_elements(x.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    convolve(x, panels, device::data<const float>(biases), device::data<T>(result));
  });
}

at::Tensor weight_gradient_in_tiles(const at::Tensor& gradient, const at::Tensor& x) {
  at::Tensor result;
  with_elements(x.scalar_type(),
                [&](auto* type) { result = weight_gradient<std::remove_pointer_t<decltype(type)>>(gradient, x); });
  return result;
}

}  // namespace osprey::kernels::cpu
