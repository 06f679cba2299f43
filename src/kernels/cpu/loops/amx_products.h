#pragma once
#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"

/// Products of bfloat16 numbers by the tile registers of AMX, many times as fast as those of floats; where there are
/// none, by what stands for them, for tests.
namespace osprey::kernels::cpu {

constexpr int64_t kTileSide = 16;  ///< rows of a tile, pairs or floats of a row: as many at most

/// So many pairs, or the least number above that divides into even steps that fill much of a register.
int64_t amx_steps(int64_t pairs);
/// The same where rows are brought together in any case: no more steps than there have to be, though longer rows.
int64_t fewest_amx_steps(int64_t pairs);

/// Rows that lie in memory at even distances, overlapping or not, each of one or more pieces of the same length: what
/// windows see of a map. Between lines of as many rows there may be another distance.
struct AmxRows {
  const Bfloat16* first;
  int64_t row_step;       ///< numbers from one row to the next
  int64_t steps;          ///< pairs of a piece: amx_steps or fewest_amx_steps of something
  const int64_t* pieces;  ///< where they begin, numbers from the beginning of a row
  int64_t piece_count;
  int64_t line_rows = 0;  ///< 0: there is one line
  int64_t line_step = 0;  ///< numbers from one line to the next
};

/// result[r][c] = start[c] + sum over i of rows[r][i] * panels[c / kPanelColumns][i][c % kPanelColumns].
/// count   of rows, 1 or more; whole lines
/// panels  [panel_count, pairs of a row, kPanelColumns] of pairs
/// start   [panel_count * kPanelColumns], or null: zeros
/// ahead   fetched meanwhile
/// result  [count, columns]; columns at most panel_count * kPanelColumns. Bfloat16: rounded, as `round_floats` does
void multiply_rows_by_amx(const AmxRows& rows, int64_t count, const float* panels, const float* start, int64_t columns,
                          const Ahead& ahead, float* result);
void multiply_rows_by_amx(const AmxRows& rows, int64_t count, const float* panels, const float* start, int64_t columns,
                          const Ahead& ahead, Bfloat16* result);

constexpr int64_t kAmxPlaces = 32;  ///< that a tile has of a channel

/// Places of a map turned into rows of channels, [channels rounded up to kTileSide, places rounded up to kAmxPlaces],
/// `row_step` numbers apart; zeros where there is nothing.
/// map  [places, channels], `map_step` numbers apart; floats are rounded
void turn_for_amx(const float* map, int64_t map_step, int64_t places, int64_t channels, Bfloat16* to, int64_t row_step);
void turn_for_amx(const Bfloat16* map, int64_t map_step, int64_t places, int64_t channels, Bfloat16* to,
                  int64_t row_step);

/// From where on a tap multiplies: so many numbers of the rows, floats of the columns.
struct AmxTap {
  int64_t a, b;
};

/// What is summed over places, for each tap: of which numbers `a` has in rows of channels, and `b` in panels.
struct AmxSums {
  const Bfloat16* a;
  int64_t a_step, a_panels;  ///< numbers from row to row; panels of kTileSide of them
  const float* b;
  int64_t b_step, b_panels;  ///< floats from one panel of columns to the next
  int64_t places;            ///< a multiple of kAmxPlaces
  const AmxTap* taps;
  int64_t tap_count;
};

/// sums[j][i][tap][r][c] = (what it is, or 0) + sum over places of
///     a[i * kTileSide + r][a of tap + place] * b[j][b of tap + place / 2][c], the pair's number of that place.
///
/// ahead, more  fetched meanwhile
/// goes_on      false: what the sums are does not count
/// sums         [b_panels, a_panels, taps, kTileSide, kPanelColumns], panels of columns `panel_step` floats apart
void add_sums_by_amx(const AmxSums& factors, const Ahead& ahead, const Ahead& more, bool goes_on, float* sums,
                     int64_t panel_step);

}  // namespace osprey::kernels::cpu
