#pragma once
#include <cstdint>

#include "kernels/cpu/loops/product_panels.h"

/// Products of matrices of floats with two multiplications for three numbers, for CPUs that add and multiply in
/// different units: Winograd's inner products (S. Winograd, "A New Algorithm for Inner Product", IEEE Transactions on
/// Computers C-17, 1968, p. 693). For two steps of a sum
///
///     (a[0] + b[1]) * (a[1] + b[0]) = a[0] * b[0] + a[1] * b[1] + a[0] * a[1] + b[0] * b[1]
///
/// takes one multiplication, and what it has too much depends on one row or on one column alone. kInnerGroup steps at a
/// time, 0 and 1 are taken so, 3 and 4 with -(a[3] - b[4]) * (a[4] - b[3]), of which too much is the negative: numbers
/// that are all of one sign do not make it grow. 2 and 5 are multiplied as they are, which makes as many
/// multiplications as additions. In the end the corrections are subtracted: the sum of a[0] * a[1] - a[3] * a[4] of a
/// row, and that of a column.
///
/// Neither side should be much larger than the other, or the digits of the smaller one are lost. So each row and each
/// column is balanced: multiplied by a power of two that makes its norm about one, and results by its inverse. What has
/// no number that is zero or normal makes zero; what has an infinite number makes no number.
///
/// An error is some roundings of the product of both norms: at most 8 of random numbers; where all corrections have one
/// sign it grows with the number of steps, as that of a plain sum of positive numbers does. (That of a plain sum is
/// some roundings of the sum of the products' sizes, which is less where what is large of one side meets what is small
/// of the other.) As parts of the steps are summed by themselves, the error is that of a plain sum or smaller from 512
/// steps on where numbers are normally distributed, also if they are clamped at zero
/// (tests/kernels/inner_products_test.cc).
namespace osprey::kernels::cpu {

constexpr int64_t kInnerGroup = 6;

/// Steps of sums of so many numbers: whole groups, to which zeros are added.
constexpr int64_t inner_steps(int64_t numbers) { return (numbers + kInnerGroup - 1) / kInnerGroup * kInnerGroup; }

/// What follows the steps of a row or column: its correction, and two factors of results, which together take its scale
/// back. (By one each, of a row and then of a column, a result could leave what floats can be and not come back.)
enum InnerEnd { kCorrection, kFactor, kOtherFactor, kInnerEnds };

/// Steps that are whole groups and fill whole registers.
constexpr int64_t kWholeSteps = 48;

/// Floats from one row to the next, as `balance_rows` writes them.
constexpr int64_t inner_row_size(int64_t depth) {
  return (depth + kWholeSteps - 1) / kWholeSteps * kWholeSteps + kPanelColumns;
}

/// Rows that are multiplied with the panels of `balance_columns`.
/// rows  [count, depth]; depth is at least 1
/// to    [count, inner_row_size(depth)]: inner_steps(depth) numbers of each, then its ends
void balance_rows(const float* rows, int64_t count, int64_t depth, float* to);

/// The same of columns, kPanelColumns at a time, where they are.
/// columns  [inner_steps(depth) + kInnerEnds, step] floats, of which `depth` times `count` are what there is
/// count    columns; what others of the last kPanelColumns are does not matter
void balance_columns(float* columns, int64_t step, int64_t depth, int64_t count);

/// result[r][c] = start[c] + sum over i of rows[r][i] * panels[c / kPanelColumns][i][c % kPanelColumns].
/// rows    as above; at least kLeastRows of them
/// panels  [panel_count, inner_steps(depth) + kInnerEnds, kPanelColumns], scaled
/// start   [panel_count * kPanelColumns], or null: zeros
/// ahead   fetched meanwhile
/// result  [count, columns], one row after the other; columns at most panel_count * kPanelColumns
void multiply_by_inner_products(const float* rows, int64_t count, int64_t depth, const float* panels,
                                const float* start, int64_t columns, const Ahead& ahead, float* result);

/// tiles[j][i][r][c] = (what it is, or 0) + sum over places of a[place][i * kPanelRows + r] * b[j][place][c].
/// a            [inner_steps(places) + kInnerEnds] of a_panels * kPanelRows scaled columns, a_step floats apart; what
///              those are that nobody wants does not matter
/// b            [b_panels, inner_steps(places) + kInnerEnds, kPanelColumns], scaled
/// ahead, more  fetched meanwhile
/// goes_on      false: what the tiles are does not count
/// tiles        [b_panels, a_panels, kPanelRows, kPanelColumns]
void add_inner_products(const float* a, int64_t a_step, int64_t a_panels, const float* b, int64_t b_panels,
                        int64_t places, const Ahead& ahead, const Ahead& more, bool goes_on, float* tiles);

}  // namespace osprey::kernels::cpu
