#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/arithmetic/inline.h"
#include "kernels/arithmetic/number.h"
#include "kernels/cpu/loops/amx_products.h"

/// The tile registers of AMX-BF16: an instruction multiplies a tile of rows of pairs of bfloat16 numbers with one of
/// columns and adds what comes of it to one of floats.
///
/// source  Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18
namespace osprey::kernels::cpu {

/// Which registers hold what: two tiles of rows, two of columns, and the sums of each with each.
constexpr int kSumTiles = 0, kRowTiles = 4, kColumnTiles = 6, kTiles = 8;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
/// The registers themselves, as long as this lives; whoever uses them next finds them set up as they were. (As
/// assembly, see PairInstructions.)
class TileInstructions {
 public:
  /// rows, steps  of the tiles of rows: rows, and pairs of each, up to kTileSide
  OSPREY_INLINE TileInstructions(int64_t rows, int64_t steps) {
    asm volatile("sttilecfg %0" : "=m"(before_));
    SetUp own;
    for (int tile = 0; tile < kTiles; ++tile) {
      const bool of_rows = tile >= kRowTiles && tile < kColumnTiles, of_columns = tile >= kColumnTiles;
      own.rows[tile] = static_cast<uint8_t>(of_columns ? steps : rows);
      own.bytes[tile] = static_cast<uint16_t>((of_rows ? steps : kTileSide) * int64_t{sizeof(float)});
    }
    asm volatile("ldtilecfg %0" : : "m"(own));
  }
  OSPREY_INLINE ~TileInstructions() { asm volatile("ldtilecfg %0" : : "m"(before_)); }
  TileInstructions(const TileInstructions&) = delete;
  TileInstructions& operator=(const TileInstructions&) = delete;

  template <int kTile>
  OSPREY_INLINE void clear() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// step  bytes from one row to the next; 0: they are all the same
  template <int kTile>
  OSPREY_INLINE void load(const void* from, int64_t step) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(step), "i"(kTile) : "memory");
  }
  template <int kTile>
  OSPREY_INLINE void store(float* to, int64_t step) const {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(step), "i"(kTile) : "memory");
  }
  template <int kSums, int kRows, int kColumns>
  OSPREY_INLINE void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kRows), "i"(kColumns));
  }

 private:
  struct alignas(64) SetUp {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes[16] = {};  ///< of a row
    uint8_t rows[16] = {};
  };
  static_assert(sizeof(SetUp) == 64);
  SetUp before_;
};
#endif

/// What the instructions do, by operations that any machine has.
class EmulatedTiles {
 public:
  EmulatedTiles(int64_t rows, int64_t steps) : rows_(rows), steps_(steps) {}

  template <int kTile>
  void clear() {
    std::memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
  }
  template <int kTile>
  void load(const void* from, int64_t step) {
    constexpr bool kRows = kTile >= kRowTiles && kTile < kColumnTiles;
    for (int64_t row = 0; row < rows_of(kTile); ++row)
      std::memcpy(tiles_[kTile][row], static_cast<const char*>(from) + row * step,
                  static_cast<size_t>(kRows ? steps_ : kTileSide) * sizeof(float));
  }
  template <int kTile>
  void store(float* to, int64_t step) const {
    for (int64_t row = 0; row < rows_of(kTile); ++row)
      std::memcpy(reinterpret_cast<char*>(to) + row * step, tiles_[kTile][row], sizeof(tiles_[kTile][row]));
  }
  template <int kSums, int kRows, int kColumns>
  void multiply() {
    for (int64_t row = 0; row < rows_; ++row)
      for (int64_t column = 0; column < kTileSide; ++column) {
        float sum = 0;
        for (int64_t step = 0; step < steps_; ++step)
          for (int64_t which = 0; which < 2; ++which)
            sum += number(tiles_[kRows][row][step], which) * number(tiles_[kColumns][step][column], which);
        tiles_[kSums][row][column] += sum;
      }
  }

 private:
  int64_t rows_of(int tile) const { return tile >= kColumnTiles ? steps_ : rows_; }
  static float number(const float& pair, int64_t which) {
    return kernels::load(reinterpret_cast<const Bfloat16*>(&pair) + which);
  }

  int64_t rows_, steps_;
  float tiles_[kTiles][kTileSide][kTileSide] = {};
};

}  // namespace osprey::kernels::cpu
