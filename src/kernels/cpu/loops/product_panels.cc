#include "kernels/cpu/loops/product_panels.h"

#include "kernels/cpu/loops/dispatch.h"

/// All of these loops take two steps at a time: measured on Zen 3, that is 0.98 of the machine's peak, whereas one or
/// four depend on how the compiler happens to place the code (0.8 to 0.98).
namespace osprey::kernels::cpu {
namespace {

typedef float Lanes __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int kHalf = 8;   // lanes
constexpr int kLine = 16;  // floats of a line of the cache

/// Divides what is to be fetched among so many steps.
struct Fetch {
  const float* next;
  int64_t lines;
  OSPREY_INLINE Fetch(const Ahead& ahead, int64_t steps)
      : next(ahead.from), lines((ahead.size / kLine + steps - 1) / steps) {}
  OSPREY_INLINE void step() {
    for (int64_t line = 0; line < lines; ++line, next += kLine) __builtin_prefetch(next, 0, 2);
  }
};
static_assert(kPanelColumns == 2 * kHalf);

OSPREY_INLINE const Lanes& lanes(const float* place) { return *reinterpret_cast<const Lanes*>(place); }
OSPREY_INLINE Lanes& lanes(float* place) { return *reinterpret_cast<Lanes*>(place); }

/// sums[r][c] += sum over places of a[place][r] * b[place][c], see add_panel_products
/// goes_on  false: what the sums are does not count
OSPREY_INLINE void multiply(const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length, bool goes_on,
                            float* sums, int64_t sums_step) {
  Lanes left[kPanelRows], right[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) {
    left[r] = goes_on ? lanes(sums + r * sums_step) : Lanes{};
    right[r] = goes_on ? lanes(sums + r * sums_step + kHalf) : Lanes{};
  }
  for (int64_t line = 0; line < lines; ++line) {
    const float* of_line = b + line * b_step;
    const auto add = [&](int place) __attribute__((always_inline)) {
      const Lanes first = lanes(of_line + place * kPanelColumns),
                  second = lanes(of_line + place * kPanelColumns + kHalf);
      for (int r = 0; r < kPanelRows; ++r) {
        left[r] += a[place * kPanelRows + r] * first;
        right[r] += a[place * kPanelRows + r] * second;
      }
    };
    int64_t place = 0;
    for (; place + 2 <= length; place += 2, a += 2 * kPanelRows, of_line += 2 * kPanelColumns) {
      add(0);
      add(1);
    }
    for (; place < length; ++place, a += kPanelRows, of_line += kPanelColumns) add(0);
  }
  for (int r = 0; r < kPanelRows; ++r) {
    lanes(sums + r * sums_step) = left[r];
    lanes(sums + r * sums_step + kHalf) = right[r];
  }
}

OSPREY_INLINE void add_to_sums(const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length,
                               float* sums, int64_t sums_step) {
  multiply(a, b, b_step, lines, length, /*goes_on=*/true, sums, sums_step);
}

OSPREY_INLINE void add_to_tiles(const float* a, int64_t a_panels, const float* b, int64_t b_panels, int64_t length,
                                const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles) {
  constexpr int64_t kTile = kPanelRows * kPanelColumns;
  Fetch fetch(ahead, a_panels * b_panels), fetch_more(more, a_panels * b_panels);
  for (int64_t j = 0; j < b_panels; ++j)
    for (int64_t i = 0; i < a_panels; ++i, tiles += kTile) {
      fetch.step();
      fetch_more.step();
      for (int64_t line = 0; line < kTile; line += kLine) __builtin_prefetch(tiles + kTile + line, 1, 3);
      multiply(a + i * length * kPanelRows, b + j * length * kPanelColumns, 0, 1, length, goes_on, tiles,
               kPanelColumns);
    }
}

/// One tile of multiply_rows.
OSPREY_INLINE void multiply_tile(const float* rows, int64_t depth, const float* panel, const float* start,
                                 float* result, int64_t result_step) {
  Lanes left[kPanelRows], right[kPanelRows];
  for (int r = 0; r < kPanelRows; ++r) {
    left[r] = start != nullptr ? lanes(start) : Lanes{};
    right[r] = start != nullptr ? lanes(start + kHalf) : Lanes{};
  }
  const auto add = [&](int64_t i) __attribute__((always_inline)) {
    const Lanes first = lanes(panel + i * kPanelColumns), second = lanes(panel + i * kPanelColumns + kHalf);
    for (int r = 0; r < kPanelRows; ++r) {
      left[r] += rows[r * depth + i] * first;
      right[r] += rows[r * depth + i] * second;
    }
  };
  int64_t i = 0;
  for (; i + 2 <= depth; i += 2) {
    add(i);
    add(i + 1);
  }
  for (; i < depth; ++i) add(i);
  for (int r = 0; r < kPanelRows; ++r) {
    lanes(result + r * result_step) = left[r];
    lanes(result + r * result_step + kHalf) = right[r];
  }
}

OSPREY_INLINE void multiply_by_panels(const float* rows, int64_t count, int64_t depth, const float* panels,
                                      const float* start, int64_t columns, const Ahead& ahead, float* result) {
  Fetch fetch(ahead, (columns + kPanelColumns - 1) / kPanelColumns * ((count + kPanelRows - 1) / kPanelRows));
  for (int64_t c = 0; c < columns; c += kPanelColumns) {
    const float* panel = panels + c * depth;
    const float* start_here = start != nullptr ? start + c : nullptr;
    for (int64_t r = 0; r < count; r += kPanelRows) {
      const int64_t row = r + kPanelRows <= count ? r : count - kPanelRows;  // the last ones again rather than fewer
      float* const to = result + row * columns + c;
      fetch.step();
      if (c + kPanelColumns <= columns) {
        multiply_tile(rows + row * depth, depth, panel, start_here, to, columns);
        continue;
      }
      float tile[kPanelRows * kPanelColumns];
      multiply_tile(rows + row * depth, depth, panel, start_here, tile, kPanelColumns);
      for (int64_t i = 0; i < kPanelRows; ++i)
        for (int64_t j = 0; j < columns - c; ++j) to[i * columns + j] = tile[i * kPanelColumns + j];
    }
  }
}

OSPREY_INLINE void transpose_into(const float* rows, int64_t count, int64_t depth, float* panel) {
  for (int64_t i = 0; i < depth; ++i)
    for (int64_t r = 0; r < kPanelColumns; ++r) panel[i * kPanelColumns + r] = r < count ? rows[r * depth + i] : 0;
}

template <int kWidth>
OSPREY_INLINE void pack_of_width(const float* map, int64_t map_step, int64_t pixels, int64_t channels, float* panels,
                                 int64_t panel_step) {
  constexpr int kMoved = (kWidth + kHalf - 1) / kHalf * kHalf;  // whole lanes; what is too much is overwritten later
  for (int64_t c = 0; c < channels; c += kWidth, panels += panel_step) {
    const float* from = map + c;
    float* to = panels;
    if (c + kMoved <= channels) {
      for (int64_t p = 0; p < pixels; ++p, from += map_step, to += kWidth)
        for (int i = 0; i < kMoved; i += kHalf) lanes(to + i) = lanes(from + i);
    } else {
      for (int64_t p = 0; p < pixels; ++p, from += map_step, to += kWidth)
        for (int i = 0; i < kWidth; ++i) to[i] = c + i < channels ? from[i] : 0;
    }
  }
}

OSPREY_INLINE void pack(const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width,
                        float* panels, int64_t panel_step) {
  if (width == kPanelRows) pack_of_width<kPanelRows>(map, map_step, pixels, channels, panels, panel_step);
  if (width == kPanelColumns) pack_of_width<kPanelColumns>(map, map_step, pixels, channels, panels, panel_step);
}

}  // namespace

OSPREY_DISPATCH(pack_panels, pack,
                (const float* map, int64_t map_step, int64_t pixels, int64_t channels, int64_t width, float* panels,
                 int64_t panel_step),
                map, map_step, pixels, channels, width, panels, panel_step)

OSPREY_DISPATCH(pack_across, transpose_into, (const float* rows, int64_t count, int64_t depth, float* panel), rows,
                count, depth, panel)

OSPREY_DISPATCH(multiply_rows, multiply_by_panels,
                (const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                 int64_t columns, const Ahead& ahead, float* result),
                rows, count, depth, panels, start, columns, ahead, result)

OSPREY_DISPATCH(add_panel_products, add_to_sums,
                (const float* a, const float* b, int64_t b_step, int64_t lines, int64_t length, float* sums,
                 int64_t sums_step),
                a, b, b_step, lines, length, sums, sums_step)

OSPREY_DISPATCH(add_tiles, add_to_tiles,
                (const float* a, int64_t a_panels, const float* b, int64_t b_panels, int64_t length, const Ahead& ahead,
                 const Ahead& more, bool goes_on, float* tiles),
                a, a_panels, b, b_panels, length, ahead, more, goes_on, tiles)

}  // namespace osprey::kernels::cpu
