#include "kernels/cpu/loops/inner_products.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "kernels/cpu/place_products.h"
#include "kernels/cpu/place_sums.h"
#include "kernels/device/launch.h"
#include "osprey/base/cpu.h"

/// Products with fewer multiplications are those of the same numbers, but for roundings of the norms of what is
/// multiplied; also on a machine where these are not faster and nothing else takes them.
namespace osprey::kernels::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The largest error, in roundings of the norm of a row times that of a column.
/// a  [rows, depth]      b  [depth, columns]      more  what has been added, or undefined
double roundings(const at::Tensor& found, const at::Tensor& a, const at::Tensor& b, const at::Tensor& more = {}) {
  const at::Tensor rows = a.to(at::kDouble), columns = b.to(at::kDouble);
  at::Tensor expected = rows.mm(columns), scale = rows.norm(2, 1, true) * columns.norm(2, 0, true);
  if (more.defined()) {
    expected = expected + more;
    scale = scale + more.abs();
  }
  return ((found.to(at::kDouble) - expected).abs() / (scale * 0x1p-24)).max().item<double>();
}
constexpr double kRoundings = 8;

/// What it is multiplied with, [panels, inner_steps(depth) + kInnerEnds, kPanelColumns], as columns are balanced:
/// what nobody has written is no number.
at::Tensor panels_of(const at::Tensor& matrix) {
  const int64_t depth = matrix.size(0), columns = matrix.size(1), count = (columns + kPanelColumns - 1) / kPanelColumns;
  const at::Tensor result = at::full({count, inner_steps(depth) + kInnerEnds, kPanelColumns}, kNan);
  result.narrow(1, 0, depth)
      .copy_(at::constant_pad_nd(matrix, {0, count * kPanelColumns - columns})
                 .view({depth, count, kPanelColumns})
                 .transpose(0, 1));
  for (int64_t panel = 0; panel < count; ++panel)
    balance_columns(result[panel].mutable_data_ptr<float>(), kPanelColumns, depth, kPanelColumns);
  return result;
}

at::Tensor multiplied(const at::Tensor& rows, const at::Tensor& matrix, const at::Tensor& start = {}) {
  const int64_t count = rows.size(0), depth = rows.size(1), columns = matrix.size(1);
  const at::Tensor balanced = at::full({count, inner_row_size(depth)}, kNan), panels = panels_of(matrix),
                   result = at::full({count + 1, columns}, kNan);
  balance_rows(rows.const_data_ptr<float>(), count, depth, balanced.mutable_data_ptr<float>());
  const at::Tensor first =
      start.defined() ? at::constant_pad_nd(start, {0, panels.size(0) * kPanelColumns - columns}) : start;
  multiply_by_inner_products(balanced.const_data_ptr<float>(), count, depth, panels.const_data_ptr<float>(),
                             first.defined() ? first.const_data_ptr<float>() : nullptr, columns, {},
                             result.mutable_data_ptr<float>());
  EXPECT_TRUE(result[count].isnan().all().item<bool>()) << "wrote beside the result";
  return result.narrow(0, 0, count);
}

TEST(InnerProducts, AreThoseOfTheNumbersButForRoundingsOfNorms) {
  at::manual_seed(61);
  for (const int64_t depth : {1, 2, 3, 5, 6, 7, 15, 16, 47, 48, 49, 64, 273, 1024})
    for (const int64_t columns : {1, 16, 17, 40, 48, 64, 85})
      for (const int64_t count : {6, 7, 29})
        for (const bool starts : {false, true}) {
          const at::Tensor rows = at::randn({count, depth}), matrix = at::randn({depth, columns}),
                           start = starts ? at::randn({columns}) : at::Tensor();
          EXPECT_LE(roundings(multiplied(rows, matrix, start), rows, matrix, start), kRoundings)
              << count << " x " << depth << " x " << columns << ", starts: " << starts;
        }
}

TEST(InnerProducts, OfNumbersThatAreNotLikeEachOther) {
  at::manual_seed(62);
  const at::Tensor positive = at::rand({29, 1000}), matrix = at::rand({1000, 40});
  EXPECT_LE(roundings(multiplied(positive, matrix), positive, matrix), 2 * kRoundings);  // plain sums grow as much
  EXPECT_LE(roundings(multiplied(positive, matrix - 0.5), positive, matrix - 0.5), kRoundings);
  const at::Tensor sparse = at::randn({29, 1000}) * (at::rand({29, 1000}) < 1.0 / 16);
  EXPECT_LE(roundings(multiplied(sparse, matrix), sparse, matrix), kRoundings) << "few that are not zero";
  // What each group has too much is of the same sign: a pair of equal numbers, then one of opposite ones.
  const at::Tensor pattern = at::tensor({1.0F, 1.0F, 0.5F, 1.0F, -1.0F, 0.5F}).repeat({29, 167});
  const at::Tensor rows = pattern * (1 + at::rand({29, 1}));
  const at::Tensor plain = at::empty({29, 29});
  PlaceProducts(rows, {}, /*transposed=*/false, Arithmetic::kFloats)
      .multiply(rows.const_data_ptr<float>(), 29, {}, plain.mutable_data_ptr<float>());
  EXPECT_LE(roundings(multiplied(rows, rows.t().contiguous()), rows, rows.t()), roundings(plain, rows, rows.t()))
      << "corrections that grow";
}

/// Not farther from exact results than sums of products one after the other, when there are enough of them.
TEST(InnerProducts, AreAsNearAsPlainOnes) {
  at::manual_seed(68);
  for (const bool clamped : {false, true})
    for (const int64_t depth : {128, 256, 512, 1024, 2304}) {
      const at::Tensor drawn = at::randn({96, depth}), rows = clamped ? drawn.relu() : drawn,
                       matrix = at::randn({depth, 128}), exact = rows.to(at::kDouble).mm(matrix.to(at::kDouble));
      const auto error = [&](Arithmetic arithmetic) {
        const at::Tensor found = at::empty({96, 128});
        PlaceProducts(matrix, {}, /*transposed=*/true, arithmetic)
            .multiply(rows.const_data_ptr<float>(), 96, {}, found.mutable_data_ptr<float>());
        return (found.to(at::kDouble) - exact).norm().item<double>();
      };
      EXPECT_LE(error(Arithmetic::kInnerProducts), (depth < 512 ? 1.35 : 1.0) * error(Arithmetic::kFloats))
          << depth << ", clamped: " << clamped;
    }
}

/// Each row and each column by itself: none is measured by another, nor by what the other side is.
TEST(InnerProducts, OfRowsAndColumnsOfAnySizeAreAsNear) {
  at::manual_seed(63);
  const at::Tensor powers = at::pow(10.0, at::arange(-15, 14, at::kFloat)),
                   rows = at::randn({29, 130}) * powers.unsqueeze(1),
                   matrix = at::randn({130, 29}) * powers.flip(0).unsqueeze(0);
  EXPECT_LE(roundings(multiplied(rows, matrix), rows, matrix), kRoundings);
  for (const auto& [tiny, huge] : {std::pair{1e-30F, 1e30F}, {1e-30F, 1e37F}, {2e-38F, 1e37F}}) {
    const at::Tensor small = at::full({12, 1020}, tiny), large = at::full({1020, 20}, huge);
    EXPECT_LE(roundings(multiplied(small, large), small, large), kRoundings) << tiny << " times " << huge;
    EXPECT_LE(roundings(multiplied(large.t().contiguous(), small.t().contiguous()), large.t(), small.t()), kRoundings)
        << huge << " times " << tiny;
  }
  // One number that is much larger than the others of its row.
  at::Tensor spikes = at::randn({29, 130}) * 1e-6;
  spikes.select(1, 77) = 1;
  EXPECT_LE(roundings(multiplied(spikes, matrix), spikes, matrix), kRoundings);
}

TEST(InnerProducts, OfZerosAreZero) {
  at::manual_seed(64);
  at::Tensor rows = at::randn({12, 70}), matrix = at::randn({70, 40}), start = at::randn({40});
  rows[7] = 0;
  rows[8] = 1e-42;  // no normal number
  matrix.select(1, 3) = 0;
  const at::Tensor plain = multiplied(rows, matrix), moved = multiplied(rows, matrix, start);
  EXPECT_TRUE(at::equal(plain[7], at::zeros({40})));
  EXPECT_TRUE(at::equal(plain[8], at::zeros({40})));
  EXPECT_TRUE(at::equal(plain.select(1, 3), at::zeros({12})));
  EXPECT_TRUE(at::equal(moved[7], start));
  EXPECT_TRUE(at::equal(moved.select(1, 3), start[3].expand({12})));
}

TEST(InnerProducts, ShowWhatIsNoNumberInItsRowOrColumnOnly) {
  at::manual_seed(65);
  for (const float bad : {kNan, std::numeric_limits<float>::infinity()}) {
    at::Tensor rows = at::randn({13, 70}), matrix = at::randn({70, 40});
    const at::Tensor good = multiplied(rows, matrix);
    rows[5][69] = bad;
    matrix[2][33] = bad;
    const at::Tensor found = multiplied(rows, matrix),
                     expected = (at::arange(13) == 5).unsqueeze(1).logical_or(at::arange(40) == 33);
    EXPECT_TRUE(at::equal(found.isfinite(), expected.logical_not()));
    EXPECT_TRUE(at::equal(found.masked_fill(expected, 0), good.masked_fill(expected, 0)));
  }
}

/// What others there are does not change a bit of a row.
TEST(InnerProducts, OfARowAreTheSameAmongOthers) {
  at::manual_seed(66);
  const at::Tensor rows = at::randn({29, 273}), matrix = at::randn({273, 85}), all = multiplied(rows, matrix);
  for (const int64_t first : {0, 1, 5, 23})
    EXPECT_TRUE(at::equal(multiplied(rows.narrow(0, first, 6), matrix), all.narrow(0, first, 6))) << first;
  EXPECT_TRUE(at::equal(multiplied(rows, matrix.narrow(1, 0, 16)), all.narrow(1, 0, 16)));
}

/// By the classes that convolutions take, for which arithmetic_of_matrix says where they are worth their while.
TEST(InnerProducts, OfPlacesAndSumsOverThem) {
  at::manual_seed(67);
  for (const bool transposed : {false, true})
    for (const int64_t columns : {128, 130, 192}) {
      const at::Tensor places = at::randn({29, 140}), biases = transposed ? at::Tensor() : at::randn({columns}),
                       matrix = at::randn({140, columns}), weights = transposed ? matrix : matrix.t().contiguous(),
                       found = at::full({29, columns}, kNan);
      PlaceProducts(weights, biases, transposed, Arithmetic::kInnerProducts)
          .multiply(places.const_data_ptr<float>(), 29, {}, found.mutable_data_ptr<float>());
      EXPECT_LE(roundings(found, places, matrix, biases), kRoundings) << columns << ", transposed: " << transposed;
      EXPECT_TRUE(at::equal(found, multiplied(places, matrix, biases)));
      for (const at::ScalarType type : {at::kHalf, at::kBFloat16})
        with_elements(type, [&](auto* element) {
          using T = std::remove_pointer_t<decltype(element)>;
          const at::Tensor halves = places.to(type), made = at::empty({29, columns}, type);
          PlaceProducts(weights, biases, transposed, Arithmetic::kInnerProducts)
              .multiply(device::data<const T>(halves), 29, {}, device::data<T>(made));
          EXPECT_TRUE(at::equal(made, multiplied(halves.to(at::kFloat), matrix, biases).to(type))) << type;
        });
    }
  for (const auto& [O, I] : {std::pair<int64_t, int64_t>{128, 128}, {133, 128}, {131, 162}, {641, 421}})
    for (const int64_t count : {6, 7, 131, 1100, 5000}) {
      const at::Tensor a = at::randn({count, O}) * 1e-5, b = at::randn({count, I});
      EXPECT_LE(roundings(sum_over_places(a.const_data_ptr<float>(), O, b.const_data_ptr<float>(), I, count,
                                          Arithmetic::kInnerProducts)
                              .view({O, I}),
                          a.t(), b),
                kRoundings)
          << fmt::format("{} x {}, {} places", O, I, count);
    }
}

TEST(InnerProducts, AreTakenWhereTheMachineAddsBesideThem) {
  EXPECT_EQ(arithmetic_for(at::kFloat) == Arithmetic::kInnerProducts, adds_beside_products());
  EXPECT_EQ(arithmetic_for(at::kHalf), arithmetic_for(at::kFloat));
  EXPECT_EQ(arithmetic_of_matrix(Arithmetic::kInnerProducts, 128, 128), Arithmetic::kInnerProducts);
  EXPECT_EQ(arithmetic_of_matrix(Arithmetic::kInnerProducts, 128, 127), Arithmetic::kFloats);
  EXPECT_EQ(arithmetic_of_matrix(Arithmetic::kFloats, 512, 512), Arithmetic::kFloats);
  EXPECT_EQ(arithmetic_of_matrix(Arithmetic::kPairs, 8, 8), Arithmetic::kPairs);
}

}  // namespace
}  // namespace osprey::kernels::cpu
