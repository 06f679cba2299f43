#include "kernels/cpu/loops/amx_products.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/loops/amx_tiles.h"
#include "kernels/cpu/loops/dispatch.h"
#include "kernels/cpu/loops/factors.h"
#include "kernels/cpu/loops/fetch.h"
#include "kernels/cpu/loops/packing.h"
#include "kernels/device/kernel.h"

namespace osprey::kernels::cpu {
namespace {

static_assert(kPanelColumns == kTileSide, "a panel is as wide as a tile");

/// Lines of the cache to be fetched with each of so many steps.
int64_t fetches_of(const Ahead& ahead, int64_t steps) {
  constexpr int64_t kLine = 16, kMost = 16;
  return std::min((ahead.size / kLine + steps - 1) / steps, kMost);
}

/// The products of a tile of rows, or two, with a panel of columns, or two.
template <class Registers, int kRows, int kColumns>
struct AmxBlock {
  Registers& registers;

  /// Calls work.operator()<register of sums>(row tile, column tile) for each.
  template <class Work>
  static OSPREY_INLINE void for_sums(const Work& work) {
    work.template operator()<kSumTiles>(0, 0);
    if constexpr (kColumns > 1) work.template operator()<kSumTiles + 1>(0, 1);
    if constexpr (kRows > 1) work.template operator()<kSumTiles + 2>(1, 0);
    if constexpr (kRows > 1 && kColumns > 1) work.template operator()<kSumTiles + 3>(1, 1);
  }

  /// One step: of rows a, which are a_step bytes apart, and panels b.
  OSPREY_INLINE void add(const void* const (&a)[2], int64_t a_step, const float* const (&b)[2]) {
    constexpr int64_t kStep = kPanelColumns * sizeof(float);
    registers.template load<kRowTiles>(a[0], a_step);
    registers.template load<kColumnTiles>(b[0], kStep);
    registers.template multiply<kSumTiles, kRowTiles, kColumnTiles>();
    if constexpr (kColumns > 1) {
      registers.template load<kColumnTiles + 1>(b[1], kStep);
      registers.template multiply<kSumTiles + 1, kRowTiles, kColumnTiles + 1>();
    }
    if constexpr (kRows > 1) {
      registers.template load<kRowTiles + 1>(a[1], a_step);
      registers.template multiply<kSumTiles + 2, kRowTiles + 1, kColumnTiles>();
      if constexpr (kColumns > 1) registers.template multiply<kSumTiles + 3, kRowTiles + 1, kColumnTiles + 1>();
    }
  }
};

/// Calls `work.operator()<1 or 2>(first)` until all have been met.
template <class Work>
OSPREY_INLINE void by_twos(int64_t count, const Work& work) {
  int64_t i = 0;
  for (; i + 2 <= count; i += 2) work.template operator()<2>(i);
  if (i < count) work.template operator()<1>(i);
}

int64_t blocks_of(int64_t row_tiles, int64_t panels) { return (row_tiles + 1) / 2 * ((panels + 1) / 2); }

/// The longest even steps of so many pairs.
int64_t step_of(int64_t pairs) {
  int64_t count = (pairs + kTileSide - 1) / kTileSide;
  while (pairs % count != 0) ++count;
  return pairs / count;
}

/// Sums that stand in a tile, row after row, brought to where they belong; floats as they are, or rounded.
template <class Numbers, class Result>
OSPREY_INLINE void write_sums(const float* sums, int64_t rows, int64_t own, Result* to, int64_t row_step) {
  constexpr int kLanes = Numbers::kLanes;
  for (int64_t r = 0; r < rows; ++r, sums += kPanelColumns, to += row_step) {
    if (own == kPanelColumns) {
      for (int64_t c = 0; c < kPanelColumns; c += kLanes) Numbers::put(Singles<kLanes>::get(sums + c), to + c);
      continue;
    }
    Result whole[kPanelColumns];
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) Numbers::put(Singles<kLanes>::get(sums + c), whole + c);
    std::copy_n(whole, own, to);
  }
}

/// Those of two panels side by side, of which none lacks a column, rounded.
template <class Numbers>
OSPREY_INLINE void write_sums(const float* first, const float* second, int64_t rows, Bfloat16* to, int64_t row_step) {
  constexpr int kLanes = Numbers::kLanes;
  for (int64_t r = 0; r < rows; ++r, first += kPanelColumns, second += kPanelColumns, to += row_step) {
    if constexpr (kLanes == kPanelColumns) {
      Numbers::put(Singles<kLanes>::get(first), Singles<kLanes>::get(second), to);
    } else {
      for (int64_t c = 0; c < kPanelColumns; c += 2 * kLanes) {
        Numbers::put(Singles<kLanes>::get(first + c), Singles<kLanes>::get(first + c + kLanes), to + c);
        Numbers::put(Singles<kLanes>::get(second + c), Singles<kLanes>::get(second + c + kLanes),
                     to + kPanelColumns + c);
      }
    }
  }
}

/// When more than about 40 steps wait to be made, the next tile that is stored holds up everything for 850 cycles
/// (measured on an Intel Xeon with AMX, 2026): so tiles are stored more often, though nobody asks for it.
constexpr int64_t kStepsToAStore = 16;

template <class Machine, class Result>
OSPREY_INLINE void multiply(const AmxRows& rows, int64_t count, const float* panels, const float* start,
                            int64_t columns, const Ahead& ahead, Result* result) {
  using Registers = typename Machine::Tiles;
  using Pairs = typename Machine::Pairs;
  using Numbers = std::conditional_t<std::is_same_v<Result, float>, Singles<Pairs::kLanes>, Pairs>;
  constexpr int64_t kRow = kPanelColumns * sizeof(float);
  const int64_t line_rows = rows.line_rows > 0 ? rows.line_rows : count, height = std::min(line_rows, kTileSide),
                line_tiles = (line_rows + kTileSide - 1) / kTileSide, row_tiles = count / line_rows * line_tiles,
                step = step_of(rows.steps), steps = rows.steps / step,
                column_panels = (columns + kPanelColumns - 1) / kPanelColumns,
                panel = rows.piece_count * rows.steps * kPanelColumns, row_bytes = rows.row_step * 2;
  Registers registers(height, step);
  const PassingPanels passing{panels, panel, column_panels, /*at_a_time=*/2};
  const bool large = passing.large();
  const int64_t calls = blocks_of(row_tiles, large ? 1 : column_panels) * rows.piece_count * steps;
  int64_t fetches = 0;  // with each of them
  const auto fetch_with = [&](int64_t j) __attribute__((always_inline)) {
    const Ahead next = passing.next(j, ahead);
    fetches = fetches_of(next, calls);
    return Fetch(next, calls * fetches, panels);
  };
  Fetch fetch = fetch_with(0);
  alignas(64) float sums[4][kTileSide * kPanelColumns];
  const auto make = [&]<int kRows, int kColumns>(int64_t i, int64_t j) __attribute__((always_inline)) {
    AmxBlock<Registers, kRows, kColumns> block{registers};
    // The first row of a tile in its line; of the last tile some again rather than fewer.
    const auto row_of = [&](int64_t tile) __attribute__((always_inline)) {
      return std::min(tile % line_tiles * kTileSide, line_rows - height);
    };
    const int64_t line[2] = {i / line_tiles, (i + 1) / line_tiles}, row[2] = {row_of(i), row_of(i + 1)};
    block.for_sums([&]<int kSums>(int, int c) __attribute__((always_inline)) {
      if (start == nullptr) {
        registers.template clear<kSums>();
      } else {
        registers.template load<kSums>(start + (j + c) * kPanelColumns, 0);
      }
    });
    const float* b[2] = {panels + j * panel, panels + (j + 1) * panel};
    int64_t made = 0;
    for (int64_t piece = 0; piece < rows.piece_count; ++piece) {
      const Bfloat16* const of_piece = rows.first + rows.pieces[piece];
      const void* a[2] = {of_piece + line[0] * rows.line_step + row[0] * rows.row_step,
                          of_piece + line[1] * rows.line_step + row[1] * rows.row_step};
      for (int64_t k = 0; k < steps; ++k) {
        if (++made % kStepsToAStore == 0) registers.template store<kSumTiles>(sums[0], kRow);
        block.add(a, row_bytes, b);
        for (const float*& next : b) next += step * kPanelColumns;
        for (const void*& next : a) next = static_cast<const float*>(next) + step;
        for (int64_t f = 0; f < fetches; ++f) fetch.step();
      }
    }
    if constexpr (std::is_same_v<Result, Bfloat16> && kColumns == 2)
      if ((j + 2) * kPanelColumns <= columns) {
        block.for_sums([&]<int kSums>(int, int) __attribute__((always_inline)) {
          registers.template store<kSums>(sums[kSums - kSumTiles], kRow);
        });
        for (int r = 0; r < kRows; ++r)
          write_sums<Numbers>(sums[2 * r], sums[2 * r + 1], height,
                              result + (line[r] * line_rows + row[r]) * columns + j * kPanelColumns, columns);
        return;
      }
    block.for_sums([&]<int kSums>(int r, int c) __attribute__((always_inline)) {
      const int64_t column = (j + c) * kPanelColumns, own = std::min(columns - column, kPanelColumns);
      Result* const to = result + (line[r] * line_rows + row[r]) * columns + column;
      if constexpr (std::is_same_v<Result, float>)
        if (own == kPanelColumns) return registers.template store<kSums>(to, columns * int64_t{sizeof(float)});
      registers.template store<kSums>(sums[kSums - kSumTiles], kRow);
      write_sums<Numbers>(sums[kSums - kSumTiles], height, own, to, columns);
    });
  };
  if (!large) {
    by_twos(
        row_tiles, [&]<int kRows>(int64_t i) __attribute__((always_inline)) {
          by_twos(
              column_panels, [&]<int kColumns>(int64_t j)
                                 __attribute__((always_inline)) { make.template operator()<kRows, kColumns>(i, j); });
        });
  } else {
    by_twos(
        column_panels, [&]<int kColumns>(int64_t j) __attribute__((always_inline)) {
          if (j > 0) fetch = fetch_with(j);
          by_twos(
              row_tiles, [&]<int kRows>(int64_t i)
                             __attribute__((always_inline)) { make.template operator()<kRows, kColumns>(i, j); });
        });
  }
}

/// Parts of a sum over places, in which what is multiplied stays in the nearest cache for all taps, if there are
/// several.
class Portions {
 public:
  Portions(int64_t steps, int64_t taps)
      : steps_(steps), count_(device::blocks_for(steps, taps > 1 ? kMost : kStepsToAStore)) {}
  int64_t count() const { return count_; }
  int64_t begin(int64_t portion) const { return portion * steps_ / count_; }

 private:
  static constexpr int64_t kMost = 10;  ///< steps
  static_assert(kMost <= kStepsToAStore);
  int64_t steps_, count_;
};

template <class Machine>
OSPREY_INLINE void add_sums(const AmxSums& of, const Ahead& ahead, const Ahead& more, bool goes_on, float* sums,
                            int64_t panel_step) {
  using Registers = typename Machine::Tiles;
  constexpr int64_t kTile = kTileSide * kPanelColumns, kRow = kPanelColumns * sizeof(float);
  const int64_t row_step = of.tap_count * kTile;
  const Portions portions(of.places / kAmxPlaces, of.tap_count);
  Registers registers(kTileSide, kTileSide);
  const int64_t calls = blocks_of(of.a_panels, of.b_panels) * of.tap_count * (of.places / kAmxPlaces),
                fetches = fetches_of(ahead, calls), more_fetches = fetches_of(more, calls);
  Fetch fetch(ahead, calls * fetches, of.b), fetch_more(more, calls * more_fetches, of.b);
  by_twos(
      of.a_panels, [&]<int kRows>(int64_t i) __attribute__((always_inline)) {
        for (int64_t portion = 0; portion < portions.count(); ++portion) {
          const int64_t begin = portions.begin(portion), end = portions.begin(portion + 1);
          by_twos(
              of.b_panels, [&]<int kColumns>(int64_t j) __attribute__((always_inline)) {
                using Block = AmxBlock<Registers, kRows, kColumns>;
                Block block{registers};
                for (int64_t tap = 0; tap < of.tap_count; ++tap) {
                  float* const first = sums + j * panel_step + i * row_step + tap * kTile;
                  Block::for_sums([&]<int kSums>(int r, int c) __attribute__((always_inline)) {
                    if (goes_on || portion > 0) {
                      registers.template load<kSums>(first + c * panel_step + r * row_step, kRow);
                    } else {
                      registers.template clear<kSums>();
                    }
                  });
                  const Bfloat16* const rows = of.a + of.taps[tap].a + i * kTileSide * of.a_step + begin * kAmxPlaces;
                  const void* a[2] = {rows, rows + kTileSide * of.a_step};
                  const float* const columns = of.b + of.taps[tap].b + j * of.b_step + begin * kTile;
                  const float* b[2] = {columns, columns + of.b_step};
                  for (int64_t k = begin; k < end; ++k) {
                    block.add(a, of.a_step * 2, b);
                    for (const float*& next : b) next += kTile;
                    for (const void*& next : a) next = static_cast<const Bfloat16*>(next) + kAmxPlaces;
                    for (int64_t f = 0; f < fetches; ++f) fetch.step();
                    for (int64_t f = 0; f < more_fetches; ++f) fetch_more.step();
                  }
                  Block::for_sums([&]<int kSums>(int r, int c) __attribute__((always_inline)) {
                    registers.template store<kSums>(first + c * panel_step + r * row_step, kRow);
                  });
                }
              });
        }
      });
}

/// Squares of as many pairs of places and channels as a register holds.
template <class Pairs, class T>
OSPREY_INLINE void turn(const T* map, int64_t map_step, int64_t places, int64_t channels, Bfloat16* to,
                        int64_t row_step) {
  constexpr int kLanes = Pairs::kLanes;
  using Memory = Singles<kLanes>;
  using Numbers = typename Memory::Floats;
  const auto turn_square = [&](const auto& pair, Bfloat16* target) __attribute__((always_inline)) {
    Numbers square[kLanes];
#pragma GCC unroll 16
    for (int k = 0; k < kLanes; ++k) square[k] = pair(k);
    transpose<1, kLanes>(square);
#pragma GCC unroll 16
    for (int k = 0; k < kLanes; ++k) Memory::put(square[k], reinterpret_cast<float*>(target + k * row_step));
  };
  for (int64_t place = 0; place < places; place += kAmxPlaces)
    for (int64_t channel = 0; channel < channels; channel += kTileSide)
      for (int64_t c = channel; c < channel + kTileSide; c += kLanes)
        for (int64_t first = place; first < place + kAmxPlaces; first += 2 * kLanes) {
          Bfloat16* const target = to + c * row_step + first;
          const T* const from = map + first * map_step + c;
          if (first + 2 * kLanes <= places && c + kLanes <= channels) {
            turn_square(
                [&](int k)
                    __attribute__((always_inline)) { return TwoPixels<Pairs>::at(from + 2 * k * map_step, map_step); },
                target);
          } else if (c + kLanes <= channels) {
            turn_square(
                [&](int k) __attribute__((always_inline)) {
                  const T* const own = from + 2 * k * map_step;
                  const int64_t left = places - first - 2 * k;
                  return left > 1    ? TwoPixels<Pairs>::at(own, map_step)
                         : left == 1 ? TwoPixels<Pairs>::first(own)
                                     : Numbers{};
                },
                target);
          } else {
            for (int64_t row = 0; row < kLanes; ++row)
              for (int64_t i = 0; i < 2 * kLanes; ++i) {
                Bfloat16& number = target[row * row_step + i];
                number = Bfloat16{};
                if (first + i < places && c + row < channels) store(&number, load(from + i * map_step + row));
              }
          }
        }
}

}  // namespace

int64_t fewest_amx_steps(int64_t pairs) {
  const int64_t count = device::blocks_for(pairs, kTileSide);
  return device::blocks_for(pairs, count) * count;
}

int64_t amx_steps(int64_t pairs) {
  constexpr int64_t kLeast = 9;  // of 16: more than half of a register
  if (pairs <= kTileSide) return pairs;
  while (step_of(pairs) < kLeast) ++pairs;
  return pairs;
}

struct AmxEmulation {
  using Tiles = EmulatedTiles;
  using Pairs = EmulatedPairs<8>;
};

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
struct AmxInstructions {
  using Tiles = TileInstructions;
  using Pairs = PairInstructions<16>;
};

/// Defines a function by the instructions of AMX and AVX512-BF16, elsewhere by what any machine has.
#define OSPREY_DISPATCH_AMX(name, inner, parameters, ...)                               \
  namespace {                                                                           \
  OSPREY_FOR_AVX512 void name##_amx parameters { inner<AmxInstructions>(__VA_ARGS__); } \
  void name##_emulated parameters { inner<AmxEmulation>(__VA_ARGS__); }                 \
  }                                                                                     \
  void name parameters {                                                                \
    static const bool native = has_bfloat16_tiles();                                    \
    native ? name##_amx(__VA_ARGS__) : name##_emulated(__VA_ARGS__);                    \
  }
#else
#define OSPREY_DISPATCH_AMX(name, inner, parameters, ...) \
  void name parameters { inner<AmxEmulation>(__VA_ARGS__); }
#endif

// NOLINTBEGIN(bugprone-macro-parentheses): T is a type
#define OSPREY_DISPATCH_AMX_PRODUCTS(T)                                                                              \
  OSPREY_DISPATCH_AMX(multiply_rows_by_amx, multiply,                                                                \
                      (const AmxRows& rows, int64_t count, const float* panels, const float* start, int64_t columns, \
                       const Ahead& ahead, T* result),                                                               \
                      rows, count, panels, start, columns, ahead, result)
#define OSPREY_DISPATCH_TURN(T)                                                                                \
  OSPREY_DISPATCH_PAIRS(                                                                                       \
      turn_for_amx, turn,                                                                                      \
      (const T* map, int64_t map_step, int64_t places, int64_t channels, Bfloat16* to, int64_t row_step), map, \
      map_step, places, channels, to, row_step)
// NOLINTEND(bugprone-macro-parentheses)

OSPREY_DISPATCH_AMX_PRODUCTS(float)
OSPREY_DISPATCH_AMX_PRODUCTS(Bfloat16)
OSPREY_DISPATCH_TURN(float)
OSPREY_DISPATCH_TURN(Bfloat16)

OSPREY_DISPATCH_AMX(add_sums_by_amx, add_sums,
                    (const AmxSums& factors, const Ahead& ahead, const Ahead& more, bool goes_on, float* sums,
                     int64_t panel_step),
                    factors, ahead, more, goes_on, sums, panel_step)

}  // namespace osprey::kernels::cpu
