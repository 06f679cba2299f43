#include "kernels/cpu/sliding_products.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "kernels/cpu/loops/amx_products.h"
#include "kernels/cpu/loops/product_panels.h"
#include "kernels/device/kernel.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels::cpu {
namespace {

/// [O, I, high, wide] -> [O, taps, I], as they lie in memory.
at::Tensor by_taps(const at::Tensor& weights) { return weights.permute({0, 2, 3, 1}).flatten(1, 2).contiguous(); }

/// Weights as panels of columns, [columns / kPanelColumns, taps, steps, kPanelColumns] of pairs.
at::Tensor to_panels(const at::Tensor& weights, bool transposed, int64_t steps) {
  const at::Tensor matrix = by_taps(weights);
  const int64_t O = matrix.size(0), taps = matrix.size(1), I = matrix.size(2), depth = transposed ? O : I,
                columns = transposed ? I : O, piece = steps * kPanelColumns, pairs = steps_of(depth, true);
  const at::Tensor panels =
      at::empty({device::blocks_for(columns, kPanelColumns), taps, steps, kPanelColumns}, matrix.options());
  const auto* from = matrix.const_data_ptr<float>();
  auto* const to = panels.mutable_data_ptr<float>();
  if (transposed) {
    parallel_for(device::blocks_for(O, kPackedRows) * taps, [&](int64_t task) {
      const int64_t row = task / taps * kPackedRows, tap = task % taps;
      pack_pairs(from + (row * taps + taps - 1 - tap) * I, taps * I, std::min(kPackedRows, O - row), I,
                 to + tap * piece + row / 2 * kPanelColumns, kPanelColumns, taps * piece);
    });
  } else {
    parallel_for(panels.size(0), [&](int64_t panel) {
      const int64_t first = panel * kPanelColumns, own = std::min(columns - first, kPanelColumns);
      const auto rows = scratch(kPanelColumns * pairs);
      auto* const numbers = reinterpret_cast<Bfloat16*>(rows.get());
      for (int64_t tap = 0; tap < taps; ++tap) {
        for (int64_t row = 0; row < own; ++row) {
          Bfloat16* const pair = numbers + row * 2 * pairs;
          round_floats(from + ((first + row) * taps + tap) * I, depth, pair);
          if (depth % 2 > 0) pair[depth] = Bfloat16{};
        }
        pack_across(rows.get(), pairs, own, pairs, to + (panel * taps + tap) * piece);
      }
    });
  }
  if (steps > pairs)
    for (int64_t i = 0; i < panels.size(0) * taps; ++i)
      std::fill(to + i * piece + pairs * kPanelColumns, to + (i + 1) * piece, 0.0f);
  return panels;
}

}  // namespace

bool slide(const Sides& sides) {
  const auto keeps = [](const Side& side) {
    return side.stride == 1 && side.from == side.to && 2 * side.before == side.kernel - 1;
  };
  return keeps(sides.lines) && keeps(sides.pixels) && sides.lines.kernel * sides.pixels.kernel > 1;
}

TallMap::TallMap(const at::Tensor& map, const TapCounts& taps)
    : height_(map.size(2)),
      pixels_(map.size(3)),
      above_(taps.high / 2),
      beside_(taps.wide / 2),
      period_(height_ + 2 * above_),
      width_(pixels_ + 2 * beside_),
      lines_(map.size(0) * height_ * pixels_ > 0 ? map.size(0) * period_ - 2 * above_ : 0) {}

std::vector<TallMap::Strip> TallMap::strips(int64_t size) const {
  constexpr int64_t kNumbers = 512 << 10, kLeastLines = 4, kShares = 8;
  if (lines_ == 0) return {};
  const int64_t most = std::max(kNumbers / (width_ * size), kLeastLines),
                count = std::clamp<int64_t>(device::blocks_for(device::blocks_for(lines_, most), kShares) * kShares, 1,
                                            std::max<int64_t>(lines_ / kLeastLines, 1));
  std::vector<Strip> result;
  for (int64_t i = 0; i < count; ++i) result.push_back({i * lines_ / count, (i + 1) * lines_ / count});
  return result;
}

void TallMap::fill(const Strip& strip, int64_t depth, int64_t place_size,
                   c10::function_ref<void(int64_t line, Bfloat16* to)> read, Bfloat16* to) const {
  const int64_t line_size = width_ * place_size, side = beside_ * place_size;
  const bool apart = depth != place_size;
  const auto line_space = scratch<Bfloat16>(apart ? pixels_ * depth : 0);
  for (int64_t line = strip.begin; line < strip.end + 2 * above_; ++line, to += line_size) {
    const int64_t number = seen(line);
    if (number < 0) {
      std::fill_n(to, line_size, Bfloat16{});
      continue;
    }
    std::fill_n(to, side, Bfloat16{});
    Bfloat16* const first = to + side;
    read(number, apart ? line_space.get() : first);
    if (apart)
      for (int64_t i = 0; i < pixels_; ++i) {
        std::copy_n(line_space.get() + i * depth, depth, first + i * place_size);
        std::fill(first + i * place_size + depth, first + (i + 1) * place_size, Bfloat16{});
      }
    std::fill_n(to + line_size - side, side, Bfloat16{});
  }
}

SlidingProducts::SlidingProducts(const at::Tensor& weights, const at::Tensor& biases, bool transposed)
    : taps_{weights.size(2), weights.size(3)},
      depth_(weights.size(transposed ? 0 : 1)),
      columns_(weights.size(transposed ? 1 : 0)),
      steps_(fewest_amx_steps(steps_of(depth_, true))),
      panels_(to_panels(weights, transposed, steps_)) {
  TORCH_INTERNAL_ASSERT(std::max(taps_.high, taps_.wide) <= kMostTaps);
  if (biases.defined()) start_ = at::constant_pad_nd(biases, {0, panels_.size(0) * kPanelColumns - columns_});
}

template <class Product>
void SlidingProducts::multiply(const TallMap& map, const Bfloat16* seen, int64_t lines, Product* made) const {
  const int64_t width = map.width(), pixels = map.pixels();
  std::array<int64_t, kMostTaps * kMostTaps> pieces;
  for (int64_t tap = 0; tap < taps_.count(); ++tap)
    pieces[static_cast<size_t>(tap)] = (tap / taps_.wide * width + tap % taps_.wide) * place_size();
  AmxRows rows{seen, place_size(), steps_, pieces.data(), taps_.count()};
  const auto* const panels = panels_.const_data_ptr<float>();
  const float* const start = start_.defined() ? start_.const_data_ptr<float>() : nullptr;
  // Line by line, or with the places that begin beside the map, which are made and left out: whichever is less.
  if (device::blocks_for(pixels, kTileSide) * kTileSide <= width) {
    rows.line_rows = pixels;
    rows.line_step = width * place_size();
    return multiply_rows_by_amx(rows, lines * pixels, panels, start, columns_, {}, made);
  }
  const auto all = scratch<Product>(lines * width * columns_);
  multiply_rows_by_amx(rows, (lines - 1) * width + pixels, panels, start, columns_, {}, all.get());
  for (int64_t line = 0; line < lines; ++line)
    std::copy_n(all.get() + line * width * columns_, pixels * columns_, made + line * pixels * columns_);
}
template void SlidingProducts::multiply(const TallMap&, const Bfloat16*, int64_t, float*) const;
template void SlidingProducts::multiply(const TallMap&, const Bfloat16*, int64_t, Bfloat16*) const;

SlidingSums::SlidingSums(int64_t O, int64_t I, const TapCounts& taps)
    : O_(O),
      I_(I),
      taps_(taps),
      row_panels_(device::blocks_for(O, kTileSide)),
      column_panels_(device::blocks_for(I, kPanelColumns)),
      sums_(at::empty({column_panels_, row_panels_, taps.count(), kTileSide, kPanelColumns}, at::kFloat)) {
  TORCH_INTERNAL_ASSERT(std::max(taps.high, taps.wide) <= kMostTaps);
}

// Pairs begin at even places. A tap that sees from an odd one on begins with the pair that has this as its second
// place, and with the zero before what is wanted; at the end there are zeros, too.
constexpr int64_t kZerosBefore = kAmxPlaces;

int64_t SlidingSums::steps(const Places& places) const {
  return device::blocks_for(places.lines * places.width + 1, kAmxPlaces);
}

int64_t SlidingSums::wanted_step(const Places& places) const {
  return ((kZerosBefore / kAmxPlaces + steps(places)) | 1) * kAmxPlaces;  // see row_step_for
}

int64_t SlidingSums::seen_step(const Places& places) const {
  const int64_t last = (taps_.high - 1) * places.width + taps_.wide - 1;  // tap
  return (last / 2 + steps(places) * kAmxPlaces / 2) * kPanelColumns;
}

int64_t SlidingSums::wanted_numbers(const Places& places) const {
  return row_panels_ * kTileSide * wanted_step(places);
}

int64_t SlidingSums::seen_floats(const Places& places) const { return column_panels_ * seen_step(places); }

void SlidingSums::pack(const Places& places, const Bfloat16* wanted, int64_t wanted_size, const Bfloat16* seen,
                       int64_t seen_size, const Packed& to) const {
  const int64_t made = places.lines * places.width - (taps_.wide - 1),
                all = (places.lines + taps_.high - 1) * places.width, row = wanted_step(places),
                panel = seen_step(places), turned = device::blocks_for(made, kAmxPlaces);
  turn_for_amx(wanted, wanted_size, made, O_, to.wanted + kZerosBefore, row);
  for (int64_t channel = 0; channel < row_panels_ * kTileSide; ++channel) {
    Bfloat16* const first = to.wanted + channel * row;
    std::fill_n(first, kZerosBefore, Bfloat16{});
    std::fill(first + kZerosBefore + turned * kAmxPlaces, first + row, Bfloat16{});
  }
  pack_pairs(seen, seen_size, all, I_, to.seen, kPanelColumns, panel);
  for (int64_t i = 0; i < column_panels_; ++i)
    std::fill(to.seen + i * panel + steps_of(all, true) * kPanelColumns, to.seen + (i + 1) * panel, 0.0f);
}

void SlidingSums::add(const std::vector<Places>& strips,
                      c10::function_ref<void(int64_t strip, const Packed& to)> fill) {
  constexpr int64_t kMostFloats = 16 << 20;  // that lie in memory at a time
  for (size_t begin = 0; begin < strips.size();) {
    std::vector<Places> some;
    std::vector<int64_t> first;  // of each
    int64_t size = 0;
    for (; begin + some.size() < strips.size() && (some.empty() || size < kMostFloats);) {
      const Places& places = strips[begin + some.size()];
      first.push_back(size);
      size += wanted_numbers(places) / 2 + seen_floats(places);
      some.push_back(places);
    }
    const auto space = scratch(size);
    std::vector<Packed> packed;
    for (size_t i = 0; i < some.size(); ++i) {
      float* const own = space.get() + first[i];
      packed.push_back({reinterpret_cast<Bfloat16*>(own), own + wanted_numbers(some[i]) / 2});
    }
    parallel_for(static_cast<int64_t>(some.size()),
                 [&](int64_t i) { fill(static_cast<int64_t>(begin) + i, packed[static_cast<size_t>(i)]); });
    multiply(some, packed);
    begin += some.size();
  }
}

void SlidingSums::multiply(const std::vector<Places>& strips, const std::vector<Packed>& packed) {
  // A sum is the same whatever task makes it.
  constexpr int64_t kMostRows = 4, kMostColumns = 16, kLeast = 2;  // panels of a task
  int64_t rows = std::min(kMostRows, row_panels_), columns = std::min(kMostColumns, column_panels_);
  const auto tasks = [&] {
    return device::blocks_for(row_panels_, rows) * device::blocks_for(column_panels_, columns);
  };
  while (tasks() < 2 * at::get_num_threads() && (rows > kLeast || columns > kLeast)) {
    int64_t& more = columns >= rows && columns > kLeast ? columns : rows;
    more = (more + 1) / 2;
  }
  const int64_t row_tasks = device::blocks_for(row_panels_, rows);
  auto* const sums = sums_.mutable_data_ptr<float>();
  parallel_for(tasks(), [&](int64_t task) {
    const int64_t row = task % row_tasks * rows, column = task / row_tasks * columns,
                  own_rows = std::min(rows, row_panels_ - row),
                  own_columns = std::min(columns, column_panels_ - column);
    const auto wanted_of = [&](size_t strip) {
      return packed[strip].wanted + row * kTileSide * wanted_step(strips[strip]);
    };
    const auto seen_of = [&](size_t strip) { return packed[strip].seen + column * seen_step(strips[strip]); };
    for (size_t i = 0; i < strips.size(); ++i) {
      const Places& places = strips[i];
      std::array<AmxTap, kMostTaps * kMostTaps> taps;
      for (int64_t tap = 0; tap < taps_.count(); ++tap) {
        const int64_t place = tap / taps_.wide * places.width + tap % taps_.wide;
        taps[static_cast<size_t>(tap)] = {-(place % 2), place / 2 * kPanelColumns};
      }
      Ahead wanted, seen;
      if (i + 1 < strips.size()) {
        wanted = Ahead::of(wanted_of(i + 1), own_rows * kTileSide * wanted_step(strips[i + 1]));
        seen = {seen_of(i + 1), own_columns * seen_step(strips[i + 1])};
      }
      add_sums_by_amx({.a = wanted_of(i) + kZerosBefore,
                       .a_step = wanted_step(places),
                       .a_panels = own_rows,
                       .b = seen_of(i),
                       .b_step = seen_step(places),
                       .b_panels = own_columns,
                       .places = steps(places) * kAmxPlaces,
                       .taps = taps.data(),
                       .tap_count = taps_.count()},
                      wanted, seen, /*goes_on=*/begun_ || i > 0,
                      sums + column * sums_.stride(0) + row * sums_.stride(1), sums_.stride(0));
    }
  });
  begun_ = true;
}

at::Tensor SlidingSums::total() const {
  if (!begun_) return at::zeros({O_, taps_.high, taps_.wide, I_}, at::kFloat);
  const at::Tensor result = at::empty({O_, taps_.high, taps_.wide, I_}, at::kFloat);
  const auto* const sums = sums_.const_data_ptr<float>();
  auto* const to = result.mutable_data_ptr<float>();
  const int64_t row_size = taps_.count() * I_;
  parallel_for(row_panels_ * column_panels_, [&](int64_t task) {
    const int64_t row_panel = task / column_panels_, panel = task % column_panels_, row = row_panel * kTileSide;
    for (int64_t tap = 0; tap < taps_.count(); ++tap)
      unpack_panel(sums + panel * sums_.stride(0) + row_panel * sums_.stride(1) + tap * sums_.stride(2),
                   std::min(kTileSide, O_ - row), panel * kPanelColumns, I_, to + row * row_size + tap * I_, row_size);
  });
  return result;
}

}  // namespace osprey::kernels::cpu
