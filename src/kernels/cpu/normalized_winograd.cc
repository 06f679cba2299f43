#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>
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

constexpr int64_t kOfAGroup =
    24;  // tiles whose sums lie together: few beside the results, and enough groups for threads
constexpr int64_t kOfFloats =
    8;  // of these, whose up to 128 results are summed as floats, as many as in channel_rows.h

/// Floats to which tiles add up what joins the doubles of their group.
class FloatSums {
 public:
  explicit FloatSums(int64_t channels) : channels_(channels), floats_(scratch(2 * channels)) { clear(); }

  void begin(const TaskSums::Sums& own) { own_ = own; }
  float* first() const { return floats_.get(); }
  float* second() const { return floats_.get() + channels_; }
  /// Another tile has been added.
  void next() {
    if (++tiles_ == kOfFloats) join();
  }
  /// All tiles have been.
  TaskSums::Sums end() {
    join();
    return own_;
  }

 private:
  void join() {
    for (int64_t c = 0; c < channels_; ++c) {
      own_.first[c] += first()[c];
      own_.second[c] += second()[c];
    }
    clear();
  }
  void clear() {
    std::fill_n(floats_.get(), 2 * channels_, 0.0f);
    tiles_ = 0;
  }

  int64_t channels_, tiles_ = 0;
  Scratch<> floats_;
  TaskSums::Sums own_{};
};

/// Results with the moments of each group.
template <class T>
class SummedResults {
 public:
  SummedResults(const WinogradPanels<T>& weights, std::vector<TaskSums>& sums)
      : weights_(weights), sums_(sums), center_(scratch(weights.columns)), floats_(weights.columns) {}

  void begin(const TileGroup& group) {
    floats_.begin(sums_[group.map].begin(group.number));
    count_ = 0;
  }
  void add(const MadeTile<T>& made, const MadeTile<T>& next, const float* products, int64_t product_step) {
    const bool first = count_ == 0;
    const auto all = static_cast<size_t>(weights_.tile.results * weights_.tile.results);
    std::array<float, kMostResults * kMostResults> inside;
    int64_t own = 0;
    for (size_t i = 0; i < all; ++i) {
      inside[i] = made.places[i] >= 0 ? 1.0f : 0.0f;
      own += made.places[i] >= 0 ? 1 : 0;
    }
    count_ += own;
    const bool whole = own == static_cast<int64_t>(all);
    transform_products(weights_.tile.results, products, product_step, weights_.columns,
                       {center_.get(), floats_.first(), floats_.second(), whole ? nullptr : inside.data(), first},
                       made.made.data(), next.made.data());
    floats_.next();
  }
  void end() {
    const auto [sum, square] = floats_.end();
    for (int64_t c = 0; c < weights_.columns; ++c)
      moments_from(center_[static_cast<size_t>(c)], count_, sum[c], square[c]);
  }

 private:
  const WinogradPanels<T>& weights_;
  std::vector<TaskSums>& sums_;
  Scratch<> center_;  ///< what is summed are differences from it
  FloatSums floats_;
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
      : weights_(weights), x_(x, begin, end, kNothing), sums_(sums), floats_(weights.columns) {}

  void begin(const TileGroup& group) { floats_.begin(sums_[group.map].begin(group.number)); }
  void add(const MadeTile<T>& made, const MadeTile<T>& next, const float* products, int64_t product_step) {
    const auto x = x_.next();
    transform_products_back(weights_.tile.results, products, product_step, weights_.columns, x.places(), *x.pending(),
                            {floats_.first(), floats_.second()}, made.made.data(), next.made.data());
    floats_.next();
  }
  void end() { floats_.end(); }

 private:
  /// Limits between which there is no number.
  static constexpr Clamp kNothing{std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()};

  const WinogradPanels<T>& weights_;
  TileByTile<T, T> x_;
  std::vector<TaskSums>& sums_;
  FloatSums floats_;
};

template <class T>
std::vector<Convolved> convolve_and_sum(at::TensorList maps, const Affines& affines, const at::Tensor& weights) {
  const PackedWeights<T> packed(weights, /*transposed=*/false, tile_for_normalized(maps, kPairs<T>));
  const WinogradPanels<T>& panels = packed.panels;
  std::vector<at::Tensor> made;
  for (const at::Tensor& x : maps) made.push_back(empty_map({x.size(0), panels.columns, x.size(2), x.size(3)}, x));
  const Places<T, T> places(maps, affines, panels.tile, panels.tile.sides(), 1);
  const std::vector<TileGroup> groups = groups_of(places.tiles(), kOfAGroup);
  std::vector<TaskSums> sums = sums_of(groups, maps.size(), panels.columns);
  convolve(places, panels, packed.numbers.get(), first_places<T>(made), groups,
           [&](int64_t, int64_t) { return SummedResults<T>(panels, sums); });
  std::vector<Convolved> results;
  for (size_t map = 0; map < maps.size(); ++map) results.push_back({made[map], sums[map].total()});
  return results;
}

/// The gradients of maps, of those of the results.
template <class T>
std::vector<MapGradient> gradients_of_maps(at::TensorList gradients, at::TensorList maps, const Affines& affines,
                                           const at::Tensor& weights) {
  const PackedWeights<T> packed(weights, /*transposed=*/true, tile_for_normalized(maps, kPairs<T>));
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
  const std::vector<TileGroup> groups = groups_of(places.tiles(), kOfAGroup);
  std::vector<TaskSums> sums = sums_of(groups, maps.size(), panels.columns);
  convolve(places, panels, packed.numbers.get(), first_places<T>(of_maps), groups,
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
    result.weights = weight_gradient_in_tiles(totals, maps, affines).permute({0, 3, 1, 2});
  });
  return result;
}

}  // namespace osprey::kernels::cpu
