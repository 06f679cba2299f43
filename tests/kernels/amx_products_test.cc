#include "kernels/cpu/loops/amx_products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/batch_norm_steps.h"
#include "kernels/cpu/product_arithmetic.h"
#include "kernels/cpu/sides.h"
#include "kernels/cpu/sliding_convolution.h"
#include "kernels/cpu/sliding_products.h"
#include "kernels/device/launch.h"
#include "kernels/maps.h"
#include "kernels/rounded_numbers.h"
#include "osprey/base/cpu.h"

/// Products by AMX are those of the numbers, rounded to bfloat16 and then multiplied and summed as floats: by its
/// instructions, or by what stands for these elsewhere.
namespace osprey::kernels::cpu {
namespace {

/// Of what has been rounded to bfloat16: half a unit of its last place, 2^-8 of a number.
void expect_rounded(const at::Tensor& found, const at::Tensor& expected, const std::string& what) {
  EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, 0x1p-8, 1e-3)) << what;
}

TEST(AmxProducts, StepsFillMuchOfARegister) {
  // Divisors of the count, up to 16 pairs a step; 17, 19 and 34 have none between 9 and 16.
  EXPECT_EQ(amx_steps(1), 1);
  EXPECT_EQ(amx_steps(16), 16);
  EXPECT_EQ(amx_steps(17), 18);
  EXPECT_EQ(amx_steps(19), 20);
  EXPECT_EQ(amx_steps(34), 36);
  EXPECT_EQ(amx_steps(72), 72);
  EXPECT_EQ(amx_steps(128), 128);
  EXPECT_EQ(amx_steps(273), 273) << "as they lie, in 21 steps";
  EXPECT_EQ(fewest_amx_steps(273), 288) << "18 steps";
  EXPECT_EQ(fewest_amx_steps(72), 75);
  for (const int64_t pairs : {1, 16, 18, 128}) EXPECT_EQ(fewest_amx_steps(pairs), pairs);
}

TEST(AmxProducts, OfRowsOfSeveralPiecesAreThoseOfTheirNumbers) {
  at::manual_seed(61);
  for (const int64_t depth : {2, 16, 34, 64})
    for (const int64_t pieces : {1, 3})
      for (const int64_t columns : {1, 16, 40})
        for (const int64_t count : {1, 5, 16, 17, 33, 70}) {
          const int64_t steps = amx_steps(steps_of(depth, true)), panels = (columns + 15) / 16;
          // Rows overlap: each begins a place after the one before, a piece two places after its neighbour.
          const at::Tensor places = at::zeros({count + 2 * pieces, 2 * steps}, at::kBFloat16);
          places.narrow(1, 0, depth).copy_(at::randn({places.size(0), depth}));
          const at::Tensor weights = at::randn({columns, pieces, depth}), start = at::zeros({panels * 16});
          start.narrow(0, 0, columns).copy_(at::randn({columns}));
          at::Tensor pairs = at::zeros({panels * 16, pieces, 2 * steps}, at::kBFloat16);
          pairs.narrow(0, 0, columns).narrow(2, 0, depth).copy_(weights);
          pairs = pairs.view({panels, 16, pieces * steps, 2}).permute({0, 2, 1, 3}).contiguous();
          std::vector<int64_t> begins;
          at::Tensor expected = start.narrow(0, 0, columns).to(at::kDouble).expand({count, columns});
          for (int64_t piece = 0; piece < pieces; ++piece) {
            begins.push_back(4 * piece * steps);
            expected = expected + places.narrow(0, 2 * piece, count)
                                      .narrow(1, 0, depth)
                                      .to(at::kDouble)
                                      .mm(rounded(weights.select(1, piece)).t());
          }
          const at::Tensor made = at::empty({count, columns}), halves = made.to(at::kBFloat16);
          const AmxRows rows{device::data<const Bfloat16>(places), 2 * steps, steps, begins.data(), pieces};
          const auto* const panel = reinterpret_cast<const float*>(device::data<const Bfloat16>(pairs));
          multiply_rows_by_amx(rows, count, panel, start.const_data_ptr<float>(), columns, {},
                               made.mutable_data_ptr<float>());
          multiply_rows_by_amx(rows, count, panel, start.const_data_ptr<float>(), columns, {},
                               device::data<Bfloat16>(halves));
          const std::string what = fmt::format("{} rows, {} x {} to {}", count, pieces, depth, columns);
          expect_sums(made, expected, what);
          expect_rounded(halves, expected, what);
        }
}

/// Of so large a matrix that some of its columns pass by while the next ones are fetched.
TEST(AmxProducts, OfManyColumnsAreThoseOfTheirNumbers) {
  at::manual_seed(65);
  constexpr int64_t kDepth = 1030;
  for (const int64_t columns : {16 * 17 + 5, 16 * 18})
    for (const int64_t count : {5, 70}) {
      const int64_t steps = fewest_amx_steps(kDepth / 2), panels = (columns + 15) / 16, first = 0;
      const at::Tensor places = at::zeros({count, 2 * steps}, at::kBFloat16), weights = at::randn({columns, kDepth});
      places.narrow(1, 0, kDepth).copy_(at::randn({count, kDepth}));
      at::Tensor pairs = at::zeros({panels * 16, 2 * steps}, at::kBFloat16);
      pairs.narrow(0, 0, columns).narrow(1, 0, kDepth).copy_(weights);
      pairs = pairs.view({panels, 16, steps, 2}).permute({0, 2, 1, 3}).contiguous();
      const at::Tensor expected = places.narrow(1, 0, kDepth).to(at::kDouble).mm(rounded(weights).t()),
                       made = at::empty({count, columns}), halves = made.to(at::kBFloat16);
      const AmxRows rows{device::data<const Bfloat16>(places), 2 * steps, steps, &first, 1};
      const auto* const panel = reinterpret_cast<const float*>(device::data<const Bfloat16>(pairs));
      multiply_rows_by_amx(rows, count, panel, nullptr, columns, {}, made.mutable_data_ptr<float>());
      multiply_rows_by_amx(rows, count, panel, nullptr, columns, {}, device::data<Bfloat16>(halves));
      const std::string what = fmt::format("{} rows to {}", count, columns);
      expect_sums(made, expected, what);
      expect_rounded(halves, expected, what);
    }
}

TEST(AmxProducts, PlacesAreTurnedWithZerosWhereThereIsNothing) {
  at::manual_seed(62);
  for (const int64_t channels : {1, 5, 8, 15, 16, 17, 40})
    for (const int64_t places : {1, 2, 15, 16, 17, 31, 32, 33, 70}) {
      const at::Tensor map = at::randn({places, channels}), halves = map.to(at::kBFloat16);
      const int64_t rows = (channels + 15) / 16 * 16, step = (places + 31) / 32 * 32;
      for (const bool of_floats : {false, true}) {
        const at::Tensor turned = at::full({rows, step}, NAN, at::kBFloat16);
        auto* const to = device::data<Bfloat16>(turned);
        if (of_floats) {
          turn_for_amx(map.const_data_ptr<float>(), channels, places, channels, to, step);
        } else {
          turn_for_amx(device::data<const Bfloat16>(halves), channels, places, channels, to, step);
        }
        const at::Tensor expected = at::zeros({rows, step}, at::kBFloat16);
        expected.narrow(0, 0, channels).narrow(1, 0, places).copy_(halves.t());
        EXPECT_TRUE(at::equal(turned, expected)) << channels << " x " << places << ", of floats: " << of_floats;
      }
    }
}

/// Windows of as many taps, all odd, and sizes of the map: lines that fill registers and do not, pictures of fewer
/// lines than windows have, several pictures in a strip and several strips of a picture.
struct Case {
  int64_t high, wide, B, H, W, I, O;
  std::string name() const { return fmt::format("{} x {} over {} x {} x {}, {} to {}", high, wide, B, H, W, I, O); }
};
const Case kCases[] = {{3, 3, 2, 20, 21, 32, 48}, {3, 3, 3, 1, 1, 16, 16},  {3, 3, 3, 2, 5, 19, 21},
                       {5, 5, 1, 7, 40, 16, 33},  {1, 7, 2, 9, 11, 24, 16}, {7, 1, 2, 9, 11, 16, 40},
                       {3, 5, 1, 90, 4, 17, 18},  {3, 3, 1, 6, 700, 64, 32}};

at::Tensor random_map(at::IntArrayRef sizes) {
  return at::randn(sizes).to(at::kBFloat16).contiguous(at::MemoryFormat::ChannelsLast);
}

std::array<int64_t, 2> padding(const Case& c) { return {c.high / 2, c.wide / 2}; }

TEST(AmxProducts, OfWindowsThatSlideAreTheirConvolutionAndItsGradients) {
  at::manual_seed(63);
  for (const Case& c : kCases) {
    const at::Tensor x = random_map({c.B, c.I, c.H, c.W}), weights = at::randn({c.O, c.I, c.high, c.wide}),
                     biases = at::randn({c.O}), gradient = random_map({c.B, c.O, c.H, c.W});
    const at::Tensor exact = x.to(at::kDouble).requires_grad_(), exact_weights = rounded(weights).requires_grad_(),
                     defined = at::conv2d(exact, exact_weights, biases.to(at::kDouble), 1, padding(c));
    defined.backward(gradient.to(at::kDouble));
    const at::Tensor y = empty_map(defined.sizes(), x), of_x = empty_map(x.sizes(), x);
    slide_over(x, weights, biases, /*transposed=*/false, y);
    expect_rounded(y, defined.detach(), c.name());
    slide_over(gradient, weights, {}, /*transposed=*/true, of_x);
    expect_rounded(of_x, exact.grad(), c.name() + ", gradient of x");
    expect_sums(sliding_weight_gradient(gradient, x, c.high, c.wide).permute({0, 3, 1, 2}), exact_weights.grad(),
                c.name() + ", gradient of the weights");
  }
}

TEST(AmxProducts, OfSeveralMapsAddUp) {
  at::manual_seed(64);
  const std::vector<at::Tensor> maps = {random_map({2, 32, 19, 20}), random_map({0, 32, 3, 3}),
                                        random_map({2, 32, 7, 5}),   random_map({1, 32, 1, 2}),
                                        random_map({2, 32, 4, 0}),   random_map({2, 32, 0, 4})};
  std::vector<at::Tensor> gradients, results;
  at::Tensor sum = at::zeros({48, 3, 3, 32});
  const at::Tensor weights = at::randn({48, 32, 3, 3});
  for (const at::Tensor& map : maps) {
    gradients.push_back(random_map({map.size(0), 48, map.size(2), map.size(3)}));
    results.push_back(empty_map(gradients.back().sizes(), map));
    sum += sliding_weight_gradient(gradients.back(), map, 3, 3);
  }
  EXPECT_TRUE(at::allclose(sliding_weight_gradient(gradients, maps, 3, 3), sum, 1e-5, 1e-4));
  slide_over(maps, weights, {}, /*transposed=*/false, results);
  for (size_t i = 0; i < maps.size(); ++i) {
    const at::Tensor own = at::empty_like(results[i]);
    slide_over(maps[i], weights, {}, /*transposed=*/false, own);
    EXPECT_TRUE(at::equal(results[i], own)) << i;
  }
}

/// Against the steps one by one, each in float64 with what is multiplied, and what maps have, rounded.
TEST(AmxProducts, OfNormalizedMapsAreTheStepsOneByOne) {
  at::manual_seed(65);
  for (const bool pending : {false, true})
    for (const Case& c : kCases) {
      const at::Tensor x = random_map({c.B, c.I, c.H, c.W}), weights = at::randn({c.O, c.I, c.high, c.wide}) * 0.1,
                       gamma = at::rand({c.I}) + 0.5, beta = at::randn({c.I}) * 0.1, mean = at::randn({c.I}) * 0.1,
                       deviation = at::rand({c.I}) + 0.5;
      std::optional<Affine> affine;
      if (pending) affine.emplace(x, gamma, beta, mean, deviation, Epilogue{.low = 0, .high = 6});
      const std::string what = fmt::format("{}, pending: {}", c.name(), pending);
      const at::Tensor values = pending ? normalize(x, *affine) : x, exact_weights = rounded(weights).requires_grad_(),
                       exact = values.to(at::kDouble).requires_grad_(),
                       defined = at::conv2d(exact, exact_weights, {}, 1, padding(c));
      // Single values and totals may fall upon the other side of a rounding.
      const auto expect_near = [&](const at::Tensor& one, const at::Tensor& other, double bound, const char* name) {
        EXPECT_LT((one.to(at::kDouble) - other).norm().item<double>(), bound * other.norm().item<double>() + 1e-6)
            << what << ", " << name;
      };
      const Convolved made = normalized_sliding(x, {affine}, weights).front();
      expect_near(made.y, defined.detach(), 0x1p-8, "y");
      const at::Tensor sums = added_up(moments(made.y));
      EXPECT_TRUE(at::allclose(made.moments, sums, 1e-6, 1e-6 * static_cast<double>(made.y.numel()))) << what;

      const at::Tensor gradient = random_map(made.y.sizes()), y_mean = at::randn({c.O}) * 0.1,
                       scale = at::rand({c.O}) + 0.5, slope = at::randn({c.O}) * 0.1, offset = at::randn({c.O}) * 0.1;
      const auto channels = [](const at::Tensor& values_of) { return values_of.view({1, -1, 1, 1}); };
      const at::Tensor total = rounded(channels(scale) * gradient.to(at::kFloat) +
                                       channels(slope) * (made.y.to(at::kFloat) - channels(y_mean)) + channels(offset));
      defined.backward(total);
      const std::vector<ThroughStatistics> through = {{gradient, made.y, y_mean, scale, slope, offset}};
      const auto [of_maps, of_weights] = normalized_sliding_backward(through, x, {affine}, weights, /*of_x=*/true);
      const MapGradient& found = of_maps.front();
      expect_near(of_weights, exact_weights.grad(), 1e-3, "weights");
      if (!pending) {
        expect_near(found.x, exact.grad(), 0x1p-8, "x");
        EXPECT_FALSE(found.moments.defined());
        const SharedGradients without = normalized_sliding_backward(through, x, {affine}, weights, /*of_x=*/false);
        EXPECT_FALSE(without.maps.front().x.defined());
        EXPECT_TRUE(at::equal(without.weights, of_weights));
        continue;
      }
      const at::Tensor back = exact.grad().to(at::kFloat).contiguous(at::MemoryFormat::ChannelsLast),
                       floats = x.to(at::kFloat);
      expect_near(found.moments, added_up(gradient_moments(back, floats, *affine)), 1e-3, "moments");
      const at::Tensor none = at::zeros({c.I});
      expect_near(found.x, spread(back, floats, *affine, none, none).to(at::kDouble), 0x1p-8, "x");
    }
}

TEST(AmxProducts, AreTakenForBfloat16WhereTheMachineHasThem) {
  EXPECT_FALSE(rounds(arithmetic_for(at::kFloat)));
  EXPECT_FALSE(rounds(arithmetic_for(at::kHalf)));
  EXPECT_EQ(arithmetic_for(at::kBFloat16) == Arithmetic::kAmx, has_bfloat16_tiles());
  EXPECT_EQ(slides_by_amx(at::kBFloat16, 16, 16), has_bfloat16_tiles());
  EXPECT_FALSE(slides_by_amx(at::kBFloat16, 16, 15));
  EXPECT_FALSE(slides_by_amx(at::kFloat, 16, 16));
  const at::Tensor x = at::zeros({1, 16, 9, 9}), weights = at::zeros({16, 16, 3, 3});
  EXPECT_TRUE(slide(Sides(x, weights, 1, {1, 1, 1, 1})));
  EXPECT_FALSE(slide(Sides(x, weights, 2, {1, 1, 1, 1}))) << "jumps";
  EXPECT_FALSE(slide(Sides(x, weights, 1, {0, 0, 0, 0}))) << "makes the map smaller";
  EXPECT_FALSE(slide(Sides(x, weights, 1, {2, 0, 1, 1}))) << "sees more above than below";
  EXPECT_FALSE(slide(Sides(x, at::zeros({16, 16, 1, 1}), 1, {0, 0, 0, 0}))) << "one tap";
}

}  // namespace
}  // namespace osprey::kernels::cpu
