#include "kernels/cpu/sliding_convolution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/normalized_steps.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/cpu/sliding_products.h"
#include "kernels/maps.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

TapCounts taps_of(const at::Tensor& weights) { return {weights.size(2), weights.size(3)}; }

/// A strip of one of some maps.
struct StripOfMap {
  size_t map;
  int64_t number;  ///< among those of its map
  TallMap::Strip strip;
};

/// Those of all maps.
/// size  numbers that a place has
std::vector<StripOfMap> strips_of(const std::vector<TallMap>& maps, int64_t size) {
  std::vector<StripOfMap> result;
  for (size_t map = 0; map < maps.size(); ++map) {
    int64_t number = 0;
    for (const TallMap::Strip& strip : maps[map].strips(size)) result.push_back({map, number++, strip});
  }
  return result;
}

std::vector<TallMap> tall(at::TensorList maps, const TapCounts& taps) {
  std::vector<TallMap> result;
  for (const at::Tensor& map : maps) result.emplace_back(map, taps);
  return result;
}

/// What a strip sees of a map, as it is or normalised.
Scratch<Bfloat16> seen_of(const at::Tensor& map, const TallMap& lines, const TallMap::Strip& strip, int64_t place_size,
                          const std::optional<Affine>& affine = std::nullopt) {
  const int64_t depth = map.size(1), line_size = lines.pixels() * depth;
  const auto* const from = device::data<const Bfloat16>(map);
  auto result = scratch<Bfloat16>(lines.seen_places(strip) * place_size);
  lines.fill(
      strip, depth, place_size,
      [&](int64_t line, Bfloat16* to) {
        if (affine) {
          normalize_rows(from + line * line_size, lines.pixels(), depth, depth, affine->channels, to);
        } else {
          std::copy_n(from + line * line_size, line_size, to);
        }
      },
      result.get());
  return result;
}

/// Makes the lines of a strip, some that follow each other in the map at a time.
///
/// to    (number of the first of them among those of all pictures, count): where they are made,
///       [count, pixels, columns]
/// done  (number of the first of them, count): they have been made
template <class To, class Done>
void make_lines(const SlidingProducts& products, const TallMap& map, const TallMap::Strip& strip, const Bfloat16* seen,
                const To& to, const Done& done) {
  constexpr int64_t kAtLeast = 384;  // places at a time, for which the weights pass by once
  const int64_t at_once = std::min(strip.lines(), kAtLeast / map.width() + 1);
  for (int64_t begin = strip.begin; begin < strip.end;) {
    const int64_t number = map.made(begin);
    int64_t count = 1;
    while (number >= 0 && count < at_once && begin + count < strip.end && map.made(begin + count) == number + count)
      ++count;
    if (number >= 0) {
      products.multiply(map, seen + (begin - strip.begin) * map.width() * products.place_size(), count,
                        to(number, count));
      done(number, count);
    }
    begin += count;
  }
}

}  // namespace

bool slides_by_amx(at::ScalarType maps, int64_t O, int64_t I) {
  return arithmetic_for(maps) == Arithmetic::kAmx && std::min(O, I) >= kPanelColumns;
}

void slide_over(at::TensorList maps, const at::Tensor& weights, const at::Tensor& biases, bool transposed,
                at::TensorList results) {
  const std::vector<TallMap> lines = tall(maps, taps_of(weights));
  const SlidingProducts products(weights, biases, transposed);
  const std::vector<StripOfMap> strips = strips_of(lines, products.place_size() + products.columns());
  parallel_for(static_cast<int64_t>(strips.size()), [&](int64_t i) {
    const auto& [map, number, strip] = strips[static_cast<size_t>(i)];
    const auto seen = seen_of(maps[map], lines[map], strip, products.place_size());
    const int64_t line_size = lines[map].pixels() * products.columns();
    auto* const to = device::data<Bfloat16>(results[map]);
    make_lines(
        products, lines[map], strip, seen.get(), [&](int64_t line, int64_t) { return to + line * line_size; },
        [](int64_t, int64_t) {});
  });
}

at::Tensor sliding_weight_gradient(at::TensorList gradients, at::TensorList maps, int64_t height, int64_t width) {
  const TapCounts taps{height, width};
  const int64_t O = gradients[0].size(1), I = maps[0].size(1);
  const std::vector<TallMap> lines = tall(maps, taps);
  const std::vector<StripOfMap> strips = strips_of(lines, O + I);
  std::vector<SlidingSums::Places> places;
  for (const auto& [map, number, strip] : strips) places.push_back({strip.lines(), lines[map].width()});
  SlidingSums sums(O, I, taps);
  sums.add(places, [&](int64_t i, const SlidingSums::Packed& to) {
    const auto& [map, number, strip] = strips[static_cast<size_t>(i)];
    const auto wanted = seen_of(gradients[map], lines[map], strip, O), seen = seen_of(maps[map], lines[map], strip, I);
    sums.pack(places[static_cast<size_t>(i)], wanted.get() + lines[map].own_place() * O, O, seen.get(), I, to);
  });
  return sums.total();
}

std::vector<Convolved> normalized_sliding(at::TensorList maps, const std::vector<std::optional<Affine>>& affines,
                                          const at::Tensor& weights) {
  const std::vector<TallMap> lines = tall(maps, taps_of(weights));
  const SlidingProducts products(weights, {}, /*transposed=*/false);
  const int64_t columns = products.columns();
  const std::vector<StripOfMap> strips = strips_of(lines, products.place_size() + columns);
  std::vector<TaskSums> sums = sums_of(strips, maps.size(), columns);
  std::vector<Convolved> results;
  for (const at::Tensor& x : maps)
    results.push_back({empty_map({x.size(0), columns, x.size(2), x.size(3)}, x), at::Tensor()});
  parallel_for(static_cast<int64_t>(strips.size()), [&](int64_t i) {
    const auto& [map, number, strip] = strips[static_cast<size_t>(i)];
    const auto seen = seen_of(maps[map], lines[map], strip, products.place_size(), affines[map]);
    const int64_t pixels = lines[map].pixels(), line_size = pixels * columns;
    auto* const to = device::data<Bfloat16>(results[map].y);
    const TaskSums::Sums own = sums[map].begin(number);
    std::optional<TaskMoments<Bfloat16>> moments;
    make_lines(
        products, lines[map], strip, seen.get(), [&](int64_t line, int64_t) { return to + line * line_size; },
        [&](int64_t line, int64_t count) {
          const Bfloat16* const made = to + line * line_size;
          if (!moments) moments.emplace(made, columns, columns, own);
          moments->add(made, count * pixels);
        });
    if (moments) moments->finish();
  });
  for (size_t map = 0; map < results.size(); ++map) results[map].moments = sums[map].total();
  return results;
}

SharedGradients normalized_sliding_backward(const std::vector<ThroughStatistics>& gradients, at::TensorList maps,
                                            const std::vector<std::optional<Affine>>& affines,
                                            const at::Tensor& weights, bool of_x) {
  const std::vector<TallMap> lines = tall(maps, taps_of(weights));
  const int64_t O = weights.size(0), I = weights.size(1);
  std::optional<SlidingProducts> products;
  if (of_x) products.emplace(weights, at::Tensor(), /*transposed=*/true);
  const int64_t wanted_size = of_x ? products->place_size() : O;
  const std::vector<StripOfMap> strips = strips_of(lines, wanted_size + I);
  std::vector<SlidingSums::Places> places;
  for (const auto& [map, number, strip] : strips) places.push_back({strip.lines(), lines[map].width()});
  SharedGradients result;
  for (const at::Tensor& x : maps) result.maps.push_back({of_x ? empty_map(x.sizes(), x) : at::Tensor(), at::Tensor()});
  std::vector<TaskSums> moments = sums_of(strips, maps.size(), I);
  SlidingSums sums(O, I, taps_of(weights));
  sums.add(places, [&](int64_t i, const SlidingSums::Packed& packed) {
    const auto& [map, number, strip] = strips[static_cast<size_t>(i)];
    const std::optional<Affine>& affine = affines[map];
    const ThroughStatistics& gradient = gradients[map];
    const int64_t pixels = lines[map].pixels();
    const auto wanted = scratch<Bfloat16>(lines[map].seen_places(strip) * wanted_size),
               seen = seen_of(maps[map], lines[map], strip, I, affine);
    lines[map].fill(
        strip, O, wanted_size,
        [&](int64_t line, Bfloat16* to) { make_total<Bfloat16>(gradient, line * pixels * O, pixels, to); },
        wanted.get());
    sums.pack(places[static_cast<size_t>(i)], wanted.get() + lines[map].own_place() * wanted_size, wanted_size,
              seen.get(), I, packed);
    const TaskSums::Sums own = affine ? moments[map].begin(number) : TaskSums::Sums();
    if (!products) return;
    const auto* const from = device::data<const Bfloat16>(maps[map]);
    auto* const to = device::data<Bfloat16>(result.maps[map].x);
    const auto space = scratch(2 * I);
    Scratch<> made;
    make_lines(
        *products, lines[map], strip, wanted.get(),
        [&](int64_t, int64_t count) {
          made = scratch(count * pixels * I);
          return made.get();
        },
        [&](int64_t line, int64_t count) {
          const int64_t first = line * pixels * I, rows = count * pixels;
          if (affine) {
            take_back_rows(made.get(), from + first, rows, I, I, affine->channels, space.get(), own.first, own.second,
                           to + first);
          } else {
            round_floats(made.get(), rows * I, to + first);
          }
        });
  });
  result.weights = sums.total().permute({0, 3, 1, 2});
  for (size_t map = 0; map < maps.size(); ++map)
    if (affines[map]) result.maps[map].moments = moments[map].total();
  return result;
}

}  // namespace osprey::kernels::cpu
