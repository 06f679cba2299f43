#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/cpu/place_products.h"
#include "kernels/device/launch.h"

/// Products of pairs of bfloat16 numbers are those of the numbers, rounded and then multiplied and summed as floats: by
/// instructions for them, or by what stands for these elsewhere.
namespace osprey::kernels::cpu {
namespace {

at::Tensor rounded(const at::Tensor& numbers) { return numbers.to(at::kBFloat16).to(at::kDouble); }

void expect_sums(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, 1e-5, 1e-4)) << what;
}

TEST(ProductPairs, OfPlacesAreThoseOfRoundedNumbers) {
  at::manual_seed(51);
  for (const int64_t depth : {1, 2, 19, 64, 273})
    for (const int64_t columns : {1, 16, 85})
      for (const int64_t count : {6, 7, 29})
        for (const bool transposed : {false, true}) {
          const std::string what = fmt::format("{} x {} x {}, transposed: {}", count, depth, columns, transposed);
          const at::Tensor weights = at::randn({transposed ? depth : columns, transposed ? columns : depth}),
                           biases = transposed ? at::Tensor() : at::randn({columns}),
                           places = at::randn({count, depth}), halves = places.to(at::kBFloat16),
                           made = at::empty({count, columns});
          const PlaceProducts products(weights, biases, transposed, /*in_pairs=*/true);
          at::Tensor expected = rounded(places).mm(transposed ? rounded(weights) : rounded(weights).t());
          if (biases.defined()) expected = expected + biases;
          auto* const to = made.mutable_data_ptr<float>();
          products.multiply(places.const_data_ptr<float>(), count, {}, to);
          expect_sums(made, expected, what + ", floats");
          made.zero_();
          products.multiply(device::data<const Bfloat16>(halves), count, {}, to);
          expect_sums(made, expected, what + ", halves");
        }
}

TEST(ProductPairs, SumsOverPlacesAreThoseOfRoundedNumbers) {
  at::manual_seed(52);
  for (const auto& [O, I] : {std::pair<int64_t, int64_t>{1, 1}, {8, 24}, {19, 37}, {64, 128}, {600, 700}})
    for (const int64_t count : {6, 7, 131, 1000}) {
      const at::Tensor a = at::randn({count, O}), b = at::randn({count, I}), a_halves = a.to(at::kBFloat16),
                       b_halves = b.to(at::kBFloat16), expected = rounded(a).t().mm(rounded(b)).view({O, I, 1, 1});
      const std::string what = fmt::format("{} x {}, {} places", O, I, count);
      expect_sums(sum_over_places(a.const_data_ptr<float>(), O, b.const_data_ptr<float>(), I, count, true), expected,
                  what + ", floats");
      expect_sums(sum_over_places(device::data<const Bfloat16>(a_halves), O, device::data<const Bfloat16>(b_halves), I,
                                  count, true),
                  expected, what + ", halves");
    }
}

TEST(ProductPairs, OfFloatsAreNotRounded) {
  at::manual_seed(53);
  const at::Tensor a = at::randn({131, 19}), b = at::randn({131, 37});
  expect_sums(sum_over_places(a.const_data_ptr<float>(), 19, b.const_data_ptr<float>(), 37, 131, false),
              a.to(at::kDouble).t().mm(b.to(at::kDouble)).view({19, 37, 1, 1}), "sums");
}

TEST(ProductPairs, ANumberThatIsNoNumberShows) {
  at::Tensor places = at::ones({6, 5});
  places[2][4] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor made = at::empty({6, 3});
  PlaceProducts(at::ones({3, 5}), {}, false, /*in_pairs=*/true)
      .multiply(places.const_data_ptr<float>(), 6, {}, made.mutable_data_ptr<float>());
  EXPECT_TRUE(at::equal(made.isnan(), (at::arange(6) == 2).unsqueeze(1).expand({6, 3})));
  EXPECT_TRUE(at::equal(made[0], at::full({3}, 5.0F)));
}

}  // namespace
}  // namespace osprey::kernels::cpu
