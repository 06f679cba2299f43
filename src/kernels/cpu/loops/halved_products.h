#pragma once
#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"

/// Products of matrices of floats with two multiplications for three numbers, for CPUs that add and multiply in
/// different units: Winograd's inner products (S. Winograd, "A New Algorithm for Inner Product", IEEE Transactions on
/// Computers C-17, 1968, p. 693). For two steps of a sum
///
///     (a[0] + b[1]) * (a[1] + b[0]) = a[0] * b[0] + a[1] * b[1] + a[0] * a[1] + b[0] * b[1]
///
/// takes one multiplication, and what it has too much depends on one row or on one column alone. kHalvedGroup steps at
/// a time, 0 and 1 are taken so, 3 and 4 with -(a[3] - b[4]) * (a[4] - b[3]), of which too much is the negative, so
/// that it does not grow with the length of the sum; 2 and 5 are multiplied as they are, which makes as many
/// multiplications as additions. In the end the corrections are subtracted: the sum of a[0] * a[1] - a[3] * a[4] of a
/// row, and that of a column.
///
/// Neither side should be much larger than the other, or the digits of the smaller one are lost. So each row and each
/// column is multiplied by a power of two that makes its norm about one, and results by its inverse, its factor, or by
/// zero, if all of it is zero. An error is within a few roundings of the product of both norms, and from some hundreds
/// of steps on it is smaller than that of a plain sum, since parts of the steps are summed by themselves
/// (tests/kernels/halved_products_test.cc).
namespace osprey::kernels::cpu {

constexpr int64_t kHalvedGroup = 6;

/// Steps of sums of so many numbers: whole groups, to which zeros are added.
constexpr int64_t halved_steps(int64_t numbers) { return (numbers + kHalvedGroup - 1) / kHalvedGroup * kHalvedGroup; }

/// What follows the steps of a row or column.
enum HalvedEnd { kCorrection, kFactor, kHalvedEnds };

/// Floats from one row to the next, as `balance_rows` writes them.
constexpr int64_t halved_row_size(int64_t depth) {
  constexpr int64_t kSigns = 48;  // whole registers and whole groups
  return (depth + kSigns - 1) / kSigns * kSigns + kPanelColumns;
}

/// Rows that are multiplied with the panels of `balance_columns`.
/// rows  [count, depth], finite or not
/// to    [count, halved_row_size(depth)]: halved_steps(depth) numbers of each, then its ends
void balance_rows(const float* rows, int64_t count, int64_t depth, float* to);

/// The same of columns, kPanelColumns at a time, where they are.
/// columns  [halved_steps(depth) + kHalvedEnds, step] floats, of which `depth` times `count` are what there is
/// count    columns; what others of the last kPanelColumns are does not matter
void balance_columns(float* columns, int64_t step, int64_t depth, int64_t count);

/// result[r][c] = start[c] + sum over i of rows[r][i] * panels[c / kPanelColumns][i][c % kPanelColumns].
/// rows    as above; at least kLeastRows of them
/// panels  [panel_count, halved_steps(depth) + kHalvedEnds, kPanelColumns], scaled
/// start   [panel_count * kPanelColumns], or null: zeros
/// ahead   fetched meanwhile
/// result  [count, columns], one row after the other; columns at most panel_count * kPanelColumns
void multiply_halved_rows(const float* rows, int64_t count, int64_t depth, const float* panels, const float* start,
                          int64_t columns, const Ahead& ahead, float* result);

/// tiles[j][i][r][c] = (what it is, or 0) + sum over places of a[place][i * kPanelRows + r] * b[j][place][c].
/// a            [halved_steps(places) + kHalvedEnds] of a_panels * kPanelRows scaled columns, a_step floats apart; what
///              those are that nobody wants does not matter
/// b            [b_panels, halved_steps(places) + kHalvedEnds, kPanelColumns], scaled
/// ahead, more  fetched meanwhile
/// goes_on      false: what the tiles are does not count
/// tiles        [b_panels, a_panels, kPanelRows, kPanelColumns]
void add_halved_tiles(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                      int64_t places, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles);

}  // namespace osprey::kernels::cpu
