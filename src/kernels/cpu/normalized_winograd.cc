#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/arithmetic/moments.h"
#include "kernels/cpu/normalized_steps.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/cpu/winograd.h"
#include "kernels/cpu/winograd_convolution.h"
#include "kernels/map_passes.h"
#include "kernels/maps.h"

namespace osprey::kernels::cpu {
namespace {

/// Of the tiles whose sums are floats, before they join the doubles of a channel.
constexpr int64_t kOfASum = kLeastRows;

std::vector<TaskSums> sums_of(const std::vector<TileGroup>& groups, size_t maps, int64_t depth) {
  std::vector<int64_t> counts(maps);
  for (const TileGroup& group : groups) ++counts[group.map];
  std::vector<TaskSums> result;
  for (const int64_t count : counts) result.emplace_back(count, depth);
  return result;
}

/// Results with the moments of each group.
template <class T>
class SummedResults {
 public:
  SummedResults(const WinogradPanels<T>& weights, std::vector<TaskSums>& sums)
      : weights_(weights), sums_(sums), scratch_(scratch(3 * weights.columns)) {}

  void begin(const TileGroup& group) {
    own_ = sums_[group.map].begin(group.number);
    count_ = 0;
    std::fill_n(scratch_.get(), 3 * weights_.columns, 0.0f);
  }
  void add(const MadeTile<T>& made, const MadeTile<T>& next, const float* products, int64_t product_step) {
    const int64_t columns = weights_.columns;
    const bool first = count_ == 0;
    const auto all = static_cast<size_t>(weights_.tile.results * weights_.tile.results);
    std::array<float, kMostResults * kMostResults> inside;
    int64_t own = 0;
    for (size_t i = 0; i < all; ++i) {
      inside[i] = made.places[i] >= 0 ? 1.0f : 0.0f;
      own += made.places[i] >= 0 ? 1 : 0;
    }
    count_ += own;
    transform_products(weights_.tile.results, products, product_step, columns,
                       {center(), center() + columns, center() + 2 * columns,
                        own == static_cast<int64_t>(all) ? nullptr : inside.data(), first},
                       made.made.data(), next.made.data());
  }
  void end() const {
    const int64_t columns = weights_.columns;
    const float *const sum = center() + columns, *const square = sum + columns;
    for (int64_t c = 0; c < columns; ++c) {
      own_.first[c] = sum[c];
      own_.second[c] = square[c];
      moments_from(center()[c], count_, own_.first[c], own_.second[c]);
    }
  }

 private:
  float* center() const { return scratch_.get(); }

  const WinogradPanels<T>& weights_;
  std::vector<TaskSums>& sums_;
  Scratch<> scratch_;  ///< center, sums of differences from it and of their squares
  TaskSums::Sums own_{};
  int64_t count_ = 0;  ///< results inside of the picture
};

/// Gradients of the results of a batch norm become those of what it has read.
template <class T>
class TakenBackResults {
 public:
  /// x           places of the tiles of results, with what is pending of them
  /// begin, end  tiles that are added
  TakenBackResults(const WinogradPanels<T>& weights, const Places<T, T>& x, int64_t begin, int64_t end,
                   std::vector<TaskSums>& sums)
      : weights_(weights), x_(x, begin, end, kNothing), sums_(sums), scratch_(scratch(2 * weights.columns)) {}

  void begin(const TileGroup& group) {
    own_ = sums_[group.map].begin(group.number);
    std::fill_n(scratch_.get(), 2 * weights_.columns, 0.0f);
  }
  void add(const MadeTile<T>& made, const MadeTile<T>& next, const float* products, int64_t product_step) {
    const int64_t columns = weights_.columns;
    const auto x = x_.next();
    transform_products_back(weights_.tile.results, products, product_step, columns, x.places(), *x.pending(),
                            {scratch_.get(), scratch_.get() + columns}, made.made.data(), next.made.data());
  }
  void end() const {
    std::copy_n(scratch_.get(), weights_.columns, own_.first);
    std::copy_n(scratch_.get() + weights_.columns, weights_.columns, own_.second);
  }

 private:
  /// Limits between which there is no number.
  static constexpr Clamp kNothing{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};

  const WinogradPanels<T>& weights_;
  TileByTile<T, T> x_;
  std::vector<TaskSums>& sums_;
  Scratch<> scratch_;  ///< sums of g and of g * (x - mean)
  TaskSums::Sums own_{};
};

/// Weights for tiles of such maps, and where they lie.
template <class T>
struct PackedWeights {
  PackedWeights(at::TensorList maps, const at::Tensor& weights, bool transposed)
      : panels(weights.size(transposed ? 0 : 1), weights.size(transposed ? 1 : 0),
               tile_for_normalized(maps, kPairs<T>)),
        numbers(scratch(panels.floats())) {
    panels.pack(weights, transposed, numbers.get());
  }
  WinogradPanels<T> panels;
  Scratch<> numbers;
};

template <class T>
std::vector<Convolved> convolve_and_sum(at::TensorList maps, const Affines& affines, const at::Tensor& weights) {
  const PackedWeights<T> packed(maps, weights, /*transposed=*/false);
  const WinogradPanels<T>& panels = packed.panels;
  std::vector<at::Tensor> made;
  for (const at::Tensor& x : maps) made.push_back(empty_map({x.size(0), panels.columns, x.size(2), x.size(3)}, x));
  const Places<T, T> places(maps, affines, panels.tile, panels.tile.sides(), 1);
  const std::vector<TileGroup> groups = groups_of(places.tiles(), kOfASum);
  std::vector<TaskSums> sums = sums_of(groups, maps.size(), panels.columns);
  convolve(places, panels, packed.numbers.get(), first_places<T>(made), groups, kOfASum,
           [&](int64_t, int64_t) { return SummedResults<T>(panels, sums); });
  std::vector<Convolved> results;
  for (size_t map = 0; map < maps.size(); ++map) results.push_back({made[map], sums[map].total()});
  return results;
}

/// The gradients of maps, of those of the results.
template <class T>
std::vector<MapGradient> gradients_of_maps(at::TensorList gradients, at::TensorList maps, const Affines& affines,
                                           const at::Tensor& weights) {
  const PackedWeights<T> packed(maps, weights, /*transposed=*/true);
  const WinogradPanels<T>& panels = packed.panels;
  std::vector<at::Tensor> of_maps;
  for (const at::Tensor& x : maps) of_maps.push_back(empty_map(x.sizes(), x));
  std::vector<MapGradient> results;
  if (!affines[0]) {
    convolve_plainly<T>(gradients, panels, packed.numbers.get(), /*biases=*/nullptr, /*clamp=*/nullptr, of_maps);
    for (const at::Tensor& of_x : of_maps) results.push_back({of_x, at::Tensor()});
    return results;
  }
  const Places<T, T> places(gradients, /*affines=*/{}, panels.tile, panels.tile.sides(), 1),
      x(maps, affines, panels.tile, panels.tile.results, 0);
  const std::vector<TileGroup> groups = groups_of(places.tiles(), kOfASum);
  std::vector<TaskSums> sums = sums_of(groups, maps.size(), panels.columns);
  convolve(places, panels, packed.numbers.get(), first_places<T>(of_maps), groups, kOfASum,
           [&](int64_t begin, int64_t end) { return TakenBackResults<T>(panels, x, begin, end, sums); });
  for (size_t map = 0; map < maps.size(); ++map) results.push_back({of_maps[map], sums[map].total()});
  return results;
}

/// The gradients of the results, what flows through their statistics included.
template <class T>
std::vector<at::Tensor> totals_of(const std::vector<ThroughStatistics>& gradients) {
  std::vector<at::Tensor> results;
  for (const ThroughStatistics& gradient : gradients) {
    results.push_back(empty_map(gradient.y.sizes(), gradient.y));
    auto* const to = device::data<T>(results.back());
    const MapRows rows(gradient.y);
    rows.for_each_block([&](int64_t, int64_t first, int64_t number) {
      make_total<T>(gradient, first * rows.depth, number, to + first * rows.depth);
    });
  }
  return results;
}

/// Calls `work` with a null pointer to a number of such maps.
template <class Work>
void with_numbers(at::ScalarType maps, const Work& work) {
  maps == at::kFloat ? work(static_cast<float*>(nullptr)) : work(static_cast<Bfloat16*>(nullptr));
}

/// Whether what is pending, if anything is, is done as tiles are read: where all limits do is to clamp.
bool clamps(const Affines& affines) {
  return std::ranges::all_of(affines, [](const std::optional<Affine>& affine) {
    return !affine || affine->channels.epilogue.curve == Epilogue::Curve::kClamp;
  });
}

std::vector<at::Tensor> normalized(at::TensorList maps, const Affines& affines) {
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < maps.size(); ++i) results.push_back(normalize(maps[i], *affines[i]));
  return results;
}

}  // namespace

bool normalizes_in_tiles(at::ScalarType maps, int64_t O, int64_t I) {
  const bool as_they_are = maps == at::kFloat || (maps == at::kBFloat16 && arithmetic_for(maps) == Arithmetic::kPairs);
  return as_they_are && O % kPanelColumns == 0 && I % kPanelColumns == 0;
}

std::vector<Convolved> normalized_in_tiles(at::TensorList maps, const Affines& affines, const at::Tensor& weights) {
  if (!clamps(affines)) return normalized_in_tiles(normalized(maps, affines), Affines(maps.size()), weights);
  std::vector<Convolved> results;
  with_numbers(maps[0].scalar_type(), [&](auto* type) {
    results = convolve_and_sum<std::remove_pointer_t<decltype(type)>>(maps, affines, weights);
  });
  return results;
}

SharedGradients normalized_in_tiles_backward(const std::vector<ThroughStatistics>& gradients, at::TensorList maps,
                                             const Affines& affines, const at::Tensor& weights, bool of_x) {
  SharedGradients result;
  if (!clamps(affines)) {
    result = normalized_in_tiles_backward(gradients, normalized(maps, affines), Affines(maps.size()), weights, of_x);
    for (size_t i = 0; i < maps.size(); ++i) {
      MapGradient& own = result.maps[i];
      std::tie(own.moments, own.x) = take_back(own.x, maps[i], *affines[i]);
    }
    return result;
  }
  with_numbers(maps[0].scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const std::vector<at::Tensor> totals = totals_of<T>(gradients);
    result.maps = of_x ? gradients_of_maps<T>(totals, maps, affines, weights) : std::vector<MapGradient>(maps.size());
    result.weights = normalized_weight_gradient_in_tiles(totals, maps, affines).permute({0, 3, 1, 2});
  });
  return result;
}

}  // namespace osprey::kernels::cpu
