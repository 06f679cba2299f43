#include "kernels/cpu/sliding_convolution.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/normalized_steps.h"
#include "kernels/cpu/place_products.h"
#include "kernels/cpu/sliding_products.h"
#include "kernels/maps.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

TapCounts taps_of(const at::Tensor& weights) { return {weights.size(2), weights.size(3)}; }

/// A strip of one of some maps.
struct StripOfMap {
  size_t map;
  TallMap::Strip strip;
};

/// Those of all maps.
/// size  numbers that a place has
std::vector<StripOfMap> strips_of(const std::vector<TallMap>& maps, int64_t size) {
  std::vector<StripOfMap> result;
  for (size_t map = 0; map < maps.size(); ++map)
    for (const TallMap::Strip& strip : maps[map].strips(size)) result.push_back({map, strip});
  return result;
}

std::vector<TallMap> tall(at::TensorList maps, const TapCounts& taps) {
  std::vector<TallMap> result;
  for (const at::Tensor& map : maps) result.emplace_back(map, taps);
  return result;
}

/// What a strip sees of a map as it is.
Scratch<Bfloat16> seen_of(const at::Tensor& map, const TallMap& lines, const TallMap::Strip& strip,
                          int64_t place_size) {
  const int64_t depth = map.size(1), line_size = lines.pixels() * depth;
  const auto* const from = device::data<const Bfloat16>(map);
  auto result = scratch<Bfloat16>(lines.seen_places(strip) * place_size);
  lines.fill(
      strip, depth, place_size,
      [&](int64_t line, Bfloat16* to) { std::copy_n(from + line * line_size, line_size, to); }, result.get());
  return result;
}

/// Makes the lines of a strip, some that follow each other in the map at a time.
/// to    (number of the first of them among those of all pictures, count): where they are made, [count, pixels,
/// columns] done  (number of the first of them, count): they have been made
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
    const auto& [map, strip] = strips[static_cast<size_t>(i)];
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
  for (const auto& [map, strip] : strips) places.push_back({strip.lines(), lines[map].width()});
  SlidingSums sums(O, I, taps);
  sums.add(places, [&](int64_t i, const SlidingSums::Packed& to) {
    const auto& [map, strip] = strips[static_cast<size_t>(i)];
    const auto wanted = seen_of(gradients[map], lines[map], strip, O), seen = seen_of(maps[map], lines[map], strip, I);
    sums.pack(places[static_cast<size_t>(i)], wanted.get() + lines[map].own_place() * O, O, seen.get(), I, to);
  });
  return sums.total();
}

Convolved normalized_sliding(const at::Tensor& x, const std::optional<Affine>& affine, const at::Tensor& weights) {
  const TallMap lines(x, taps_of(weights));
  const SlidingProducts products(weights, {}, /*transposed=*/false);
  const int64_t depth = products.depth(), columns = products.columns(), line_size = lines.pixels() * columns;
  const std::vector<TallMap::Strip> strips = lines.strips(products.place_size() + columns);
  const at::Tensor y = empty_map({x.size(0), columns, x.size(2), x.size(3)}, x);
  const auto* const from = device::data<const Bfloat16>(x);
  auto* const to = device::data<Bfloat16>(y);
  TaskSums sums(static_cast<int64_t>(strips.size()), columns);
  parallel_for(static_cast<int64_t>(strips.size()), [&](int64_t i) {
    const TallMap::Strip& strip = strips[static_cast<size_t>(i)];
    const auto seen = scratch<Bfloat16>(lines.seen_places(strip) * products.place_size());
    lines.fill(
        strip, depth, products.place_size(),
        [&](int64_t line, Bfloat16* numbers) {
          const Bfloat16* const of_map = from + line * lines.pixels() * depth;
          if (affine) {
            normalize_rows(of_map, lines.pixels(), depth, depth, affine->channels, numbers);
          } else {
            std::copy_n(of_map, lines.pixels() * depth, numbers);
          }
        },
        seen.get());
    const TaskSums::Sums own = sums.begin(i);
    std::optional<TaskMoments<Bfloat16>> moments;
    make_lines(
        products, lines, strip, seen.get(), [&](int64_t line, int64_t) { return to + line * line_size; },
        [&](int64_t line, int64_t count) {
          const Bfloat16* const result = to + line * line_size;
          if (!moments) moments.emplace(result, columns, columns, own);
          moments->add(result, count * lines.pixels());
        });
    if (moments) moments->finish();
  });
  return {y, sums.total()};
}

ConvolvedGradients normalized_sliding_backward(const ThroughStatistics& gradient, const at::Tensor& x,
                                               const std::optional<Affine>& affine, const at::Tensor& weights,
                                               bool of_x) {
  const TallMap lines(x, taps_of(weights));
  const int64_t O = weights.size(0), I = weights.size(1);
  std::optional<SlidingProducts> products;
  if (of_x) products.emplace(weights, at::Tensor(), /*transposed=*/true);
  const int64_t wanted_size = of_x ? products->place_size() : O;
  const std::vector<TallMap::Strip> strips = lines.strips(wanted_size + I);
  std::vector<SlidingSums::Places> places;
  for (const TallMap::Strip& strip : strips) places.push_back({strip.lines(), lines.width()});
  ConvolvedGradients result;
  if (of_x) result.x = empty_map(x.sizes(), x);
  const auto* const from = device::data<const Bfloat16>(x);
  auto* const to = of_x ? device::data<Bfloat16>(result.x) : nullptr;
  TaskSums moments(affine ? static_cast<int64_t>(strips.size()) : 0, I);
  SlidingSums sums(O, I, taps_of(weights));
  sums.add(places, [&](int64_t i, const SlidingSums::Packed& packed) {
    const TallMap::Strip& strip = strips[static_cast<size_t>(i)];
    const auto wanted = scratch<Bfloat16>(lines.seen_places(strip) * wanted_size),
               seen = scratch<Bfloat16>(lines.seen_places(strip) * I);
    lines.fill(
        strip, O, wanted_size,
        [&](int64_t line, Bfloat16* numbers) {
          make_total<Bfloat16>(gradient, line * lines.pixels() * O, lines.pixels(), numbers);
        },
        wanted.get());
    lines.fill(
        strip, I, I,
        [&](int64_t line, Bfloat16* numbers) {
          const Bfloat16* const of_map = from + line * lines.pixels() * I;
          if (affine) {
            normalize_rows(of_map, lines.pixels(), I, I, affine->channels, numbers);
          } else {
            std::copy_n(of_map, lines.pixels() * I, numbers);
          }
        },
        seen.get());
    sums.pack(places[static_cast<size_t>(i)], wanted.get() + lines.own_place() * wanted_size, wanted_size, seen.get(),
              I, packed);
    const TaskSums::Sums own = affine ? moments.begin(i) : TaskSums::Sums();
    if (!products) return;
    const auto space = scratch(2 * I);
    Scratch<> made;
    make_lines(
        *products, lines, strip, wanted.get(),
        [&](int64_t, int64_t count) {
          made = scratch(count * lines.pixels() * I);
          return made.get();
        },
        [&](int64_t line, int64_t count) {
          const int64_t first = line * lines.pixels() * I, rows = count * lines.pixels();
          if (affine) {
            take_back_rows(made.get(), from + first, rows, I, I, affine->channels, space.get(), own.first, own.second,
                           to + first);
          } else {
            round_floats(made.get(), rows * I, to + first);
          }
        });
  });
  result.weights = sums.total().permute({0, 3, 1, 2});
  if (affine) result.moments = moments.total();
  return result;
}

}  // namespace osprey::kernels::cpu
