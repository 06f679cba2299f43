#include "kernels/cpu/winograd.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/product_arithmetic.h"
#include "kernels/cpu/winograd_convolution.h"
#include "kernels/cpu/winograd_tiles.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// Many tiles at a time: first what is multiplied of each, then each of the sums over them goes on.
template <class T, class Factor>
at::Tensor weight_gradient(at::TensorList gradients, at::TensorList maps, const Affines& affines,
                           const TileSize& size) {
  constexpr int64_t kChannelsAtOnce = 96 << 10, kLeast = 192, kOfATask = 12;  // tiles
  constexpr int64_t kTogether = kOfAStep<Factor>;
  const Places<T, Factor> seen(maps, affines, size, size.sides(), 1), wanted(gradients, {}, size, size.results, 0);
  const int64_t tiles = seen.tiles().count(), transformed = size.transformed(), O = wanted.depth(), I = seen.depth(),
                row_panels = device::blocks_for(O, kPanelRows), column_panels = I / kPanelColumns,
                sum_size = column_panels * row_panels * kPanelRows * kPanelColumns;
  const int64_t at_once = std::max(kChannelsAtOnce / (O + I), kLeast) / kTogether * kTogether,
                most = device::blocks_for(std::min(at_once, tiles), kTogether), seen_step = apart(most, I),
                row_step = row_step_for(O), wanted_step = apart(most, row_step);
  TORCH_INTERNAL_ASSERT(tiles > 0);
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
      const int64_t first = begin + task * kOfATask, last = std::min(first + kOfATask, end);
      TileByTile<T, Factor, kTogether> of_tiles(seen, first, last), of_results(wanted, first, last);
      for (int64_t tile = first; tile < last; tile += kTogether) {
        const int64_t step = (tile - begin) / kTogether;
        float *const to_x = of_x.get() + step * kPanelColumns, *const to_gradient = of_gradient.get() + step * row_step;
        const auto x = of_tiles.next(), gradient = of_results.next();
        if constexpr (kPairs<Factor>) {
          const auto other_x = of_tiles.next(), other_gradient = of_results.next();
          transform_seen_to_pairs(size.results, x.places(), x.pending(), other_x.places(), other_x.pending(), I, to_x,
                                  panel, seen_step);
          transform_wanted_to_pairs(size.results, gradient.places(), other_gradient.places(), O, to_gradient,
                                    wanted_step);
        } else {
          transform_seen(size.results, x.places(), x.pending(), I, to_x, panel, seen_step);
          transform_wanted(size.results, gradient.places(), O, to_gradient, wanted_step);
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
         Tiles(maps, tile_for(maps, rounds(arithmetic_for(maps[0].scalar_type())))).count() >= kLeastRows;
}

void convolve_in_tiles(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                       at::TensorList results) {
  with_factors(maps[0].scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    const PackedWeights<Factor> packed(weights, transposed, tile_for(maps, kPairs<Factor>));
    convolve_plainly<std::remove_pointer_t<decltype(type)>>(
        maps, packed.panels, packed.numbers.get(), device::data<const float>(biases), /*clamp=*/nullptr, results);
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
    convolve_plainly<std::remove_pointer_t<decltype(type)>>(map, panels, packed.const_data_ptr<float>(),
                                                            biases.const_data_ptr<float>(), &clamp, result);
  });
}

at::Tensor weight_gradient_in_tiles(at::TensorList gradients, at::TensorList maps, const Affines& affines) {
  at::Tensor result;
  with_factors(maps[0].scalar_type(), [&](auto* type, auto* factor) {
    using Factor = std::remove_pointer_t<decltype(factor)>;
    const auto tile = affines.empty() ? &tile_for : &tile_for_normalized;
    result = weight_gradient<std::remove_pointer_t<decltype(type)>, Factor>(gradients, maps, affines,
                                                                            tile(maps, kPairs<Factor>));
  });
  return result;
}

}  // namespace osprey::kernels::cpu
