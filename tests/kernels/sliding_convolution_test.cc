#include "osprey/kernels/sliding_convolution.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "kernels/cpu/winograd.h"
#include "osprey/base/cpu.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/device.h"
#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr ConvolutionWindow kWindow{{3, 3}, 1, {1, 1}};

at::Tensor random_map(at::IntArrayRef sizes) { return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast); }

at::Tensor with_gradient(const at::Tensor& tensor) { return tensor.detach().clone().requires_grad_(); }

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases = {}) {
  return sliding_convolution(x, weights, biases).front();
}

at::Tensor gradient_of_x(const at::Tensor& gradient, const at::Tensor& weights) {
  return sliding_convolution_gradient(gradient, weights).front();
}

TEST(SlidingConvolution, IsTheConvolutionAndItsGradients) {
  at::manual_seed(5);
  // Fewer tiles than are multiplied at a time, tiles that end beyond the picture at either side, several tasks, more
  // tiles than a weight gradient takes at a time; channels that fill panels, that do not, and those left to libtorch.
  for (const auto& [batch, height, width] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {2, 5, 5}, {1, 16, 17}, {3, 11, 18}, {2, 41, 40}})
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{16, 16}, {64, 83}, {16, 130}, {48, 21}, {5, 7}}) {
      const at::Tensor x = random_map({batch, in, height, width}), weights = at::randn({out, in, 3, 3}),
                       biases = at::randn({out});
      const at::Tensor exact = with_gradient(x.to(at::kDouble)), exact_weights = with_gradient(weights.to(at::kDouble));
      const at::Tensor defined = at::conv2d(exact, exact_weights, biases.to(at::kDouble), 1, 1);
      const std::string what = fmt::format("{} x {} x {}, {} to {}", batch, height, width, in, out);
      // Sums of normal products, as large as the root of their number; tiles of 4 x 4 are off by some 1e-5 of that.
      const auto off_by = [](int64_t products) { return 1.5e-5 * std::sqrt(static_cast<double>(products)); };
      const at::Tensor y = convolved(x, weights, biases);
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast)) << what;
      expect_close(y, defined.detach().to(at::kFloat), 1e-5, off_by(9 * in), what);
      expect_close(convolved(x, weights.contiguous(at::MemoryFormat::ChannelsLast)),
                   (defined - biases.view({1, -1, 1, 1})).detach().to(at::kFloat), 1e-5, off_by(9 * in),
                   what + ", no biases");
      for (const at::Tensor& gradient : {at::randn_like(y), at::randn_like(y).contiguous()}) {
        exact.mutable_grad() = exact_weights.mutable_grad() = at::Tensor();
        defined.backward(gradient.to(at::kDouble), /*retain_graph=*/true);
        expect_close(gradient_of_x(gradient, weights), exact.grad().to(at::kFloat), 1e-5, off_by(9 * out),
                     what + ", gradient of x");
        expect_close(convolution_weight_gradient(gradient, x, kWindow), exact_weights.grad().to(at::kFloat), 1e-5,
                     off_by(batch * height * width), what + ", gradient of the weights");
      }
    }
}

TEST(SlidingConvolution, OfOtherWindowsIsTheConvolutionAndItsGradients) {
  at::manual_seed(12);
  for (const auto& [high, wide] : {std::pair<int64_t, int64_t>{1, 7}, {7, 1}, {5, 5}, {3, 1}, {1, 1}})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const at::Tensor x = random_map({2, 24, 13, 14}).to(type), weights = at::randn({35, 24, high, wide}),
                       biases = at::randn({35}), exact = with_gradient(x.to(at::kDouble)),
                       exact_weights = with_gradient(weights.to(at::kDouble)),
                       y = at::conv2d(exact, exact_weights, biases.to(at::kDouble), 1, {high / 2, wide / 2}),
                       gradient = random_map(y.sizes()).to(type);
      y.backward(gradient.to(at::kDouble));
      const auto expect_near = [&](const at::Tensor& found, const at::Tensor& expected, const char* what) {
        const double bound = type == at::kFloat ? 1e-6 : 0x1p-8;
        EXPECT_LT((found.to(at::kDouble) - expected).norm().item<double>(), bound * expected.norm().item<double>())
            << high << " x " << wide << ", " << type << ", " << what;
      };
      expect_near(convolved(x, weights, biases), y.detach(), "result");
      expect_near(gradient_of_x(gradient, weights), exact.grad(), "gradient of x");
      const ConvolutionWindow window{{high, wide}, 1, {high / 2, wide / 2}};
      expect_near(convolution_weight_gradient(gradient, x, window), exact_weights.grad(), "gradient of the weights");
    }
}

/// Rounding a result to bfloat16 makes 0.17 % of its norm, what is multiplied where the CPU multiplies such numbers the
/// rest. (That unit is 2^-7 of a number's power of two.)
TEST(SlidingConvolution, OfHalfTheBitsIsOffByLessThanAUnitOfItsLastPlace) {
  at::manual_seed(7);
  const auto half = [](const at::Tensor& map) { return map.to(at::kBFloat16); };
  const at::Tensor x = half(random_map({2, 256, 20, 21})), weights = at::randn({256, 256, 3, 3}),
                   exact = with_gradient(x.to(at::kDouble)), exact_weights = with_gradient(weights.to(at::kDouble)),
                   y = at::conv2d(exact, exact_weights, {}, 1, 1), gradient = half(random_map(y.sizes()));
  y.backward(gradient.to(at::kDouble));
  const auto expect_near = [](const at::Tensor& found, const at::Tensor& expected, const char* what) {
    EXPECT_LT((found.to(at::kDouble) - expected).norm().item<double>(), 0x1p-7 * expected.norm().item<double>())
        << what;
  };
  expect_near(convolved(x, weights), y.detach(), "result");
  expect_near(gradient_of_x(gradient, weights), exact.grad(), "gradient of x");
  expect_near(convolution_weight_gradient(gradient, x, kWindow), exact_weights.grad(), "gradient of the weights");
}

TEST(SlidingConvolution, IsOffByTwiceAsMuchAsAPlainOneAtMost) {
  at::manual_seed(6);
  const at::Tensor x = random_map({2, 256, 20, 20}), weights = at::randn({256, 256, 3, 3}) * 0.02;
  const at::Tensor exact = at::conv2d(x.to(at::kDouble), weights.to(at::kDouble), {}, 1, 1);
  const auto error = [&](const at::Tensor& y) { return (y.to(at::kDouble) - exact).abs().max().item<double>(); };
  EXPECT_LT(error(convolved(x, weights)), 2 * error(at::conv2d(x, weights, {}, 1, 1)));
}

TEST(SlidingConvolution, GradientsFlowToAllThatItIsMadeOf) {
  at::manual_seed(7);
  for (const int64_t in : {16, 19}) {
    const at::Tensor biases = with_gradient(at::randn({23})), same_biases = with_gradient(biases);
    const at::Tensor x = with_gradient(random_map({2, in, 18, 15})), same_x = with_gradient(x),
                     weights = with_gradient(at::randn({23, in, 3, 3})), same_weights = with_gradient(weights),
                     gradient = at::randn({2, 23, 18, 15});
    convolved(x, weights, biases).backward(gradient);
    at::conv2d(same_x, same_weights, same_biases, 1, 1).backward(gradient);
    expect_close(x.grad(), same_x.grad(), 1e-4, 1e-4, "x");
    expect_close(weights.grad(), same_weights.grad(), 1e-4, 2e-4, "weights");
    expect_close(biases.grad(), same_biases.grad(), 1e-4, 1e-4, "biases");

    // The other way round.
    const at::Tensor y = with_gradient(gradient), same_y = with_gradient(gradient), of_x = at::randn({2, in, 18, 15});
    weights.mutable_grad() = same_weights.mutable_grad() = at::Tensor();
    gradient_of_x(y, weights).backward(of_x);
    at::conv_transpose2d(same_y, same_weights, {}, 1, 1).backward(of_x);
    expect_close(y.grad(), same_y.grad(), 1e-4, 1e-4, "y");
    expect_close(weights.grad(), same_weights.grad(), 1e-4, 2e-4, "weights, transposed");
  }
}

TEST(SlidingConvolution, ANumberThatIsNoneShowsWhereItIsSeenAndNotFarFromThere) {
  at::manual_seed(8);
  at::Tensor x = random_map({1, 16, 20, 20});
  x[0][3][9][9] = NAN;
  const at::Tensor bad = convolved(x, at::randn({16, 16, 3, 3})).isnan().any(1)[0];
  EXPECT_TRUE(bad.slice(0, 8, 11).slice(1, 8, 11).all().item<bool>());
  EXPECT_EQ(bad.slice(0, 8, 12).slice(1, 8, 12).sum().item<int64_t>(), bad.sum().item<int64_t>());
}

TEST(SlidingConvolution, OfSeveralMapsIsThatOfEachAndTheGradientsOfTheWeightsAddUp) {
  at::manual_seed(9);
  // Tiles of every map in a task, maps of fewer tiles than are multiplied at a time, one of no pictures.
  const std::vector<std::vector<int64_t>> sizes = {{2, 32, 19, 20}, {2, 32, 7, 5}, {0, 32, 4, 4}, {1, 32, 1, 2}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const double tolerance = type == at::kFloat ? 1e-4 : 4e-2;
    const at::Tensor weights = with_gradient(at::randn({96, 32, 3, 3})), same_weights = with_gradient(weights),
                     biases = with_gradient(at::randn({96})), same_biases = with_gradient(biases);
    std::vector<at::Tensor> maps, same_maps, gradients;
    for (const auto& size : sizes) {
      maps.push_back(with_gradient(random_map(size).to(type)));
      same_maps.push_back(with_gradient(maps.back().to(at::kFloat)));
      gradients.push_back(random_map({size[0], 96, size[2], size[3]}).to(type));
    }
    const std::vector<at::Tensor> results = sliding_convolution(maps, weights, biases);
    at::Tensor all = at::zeros({}), same = at::zeros({});
    for (size_t i = 0; i < maps.size(); ++i) {
      const at::Tensor expected = at::conv2d(same_maps[i], same_weights, same_biases, 1, 1);
      EXPECT_EQ(results[i].scalar_type(), type);
      expect_close(results[i].detach().to(at::kFloat), expected.detach(), tolerance, 20 * tolerance,
                   fmt::format("map {}", i));
      all = all + (results[i].to(at::kFloat) * gradients[i].to(at::kFloat)).sum();
      same = same + (expected * gradients[i].to(at::kFloat)).sum();
    }
    all.backward();
    same.backward();
    for (size_t i = 0; i < maps.size(); ++i)
      expect_close(maps[i].grad().to(at::kFloat), same_maps[i].grad(), tolerance, 25 * tolerance,
                   fmt::format("gradient of map {}", i));
    expect_close(weights.grad(), same_weights.grad(), tolerance, 30 * tolerance, "gradient of the weights");
    expect_close(biases.grad(), same_biases.grad(), tolerance, tolerance, "gradient of the biases");
  }
}

TEST(SlidingConvolution, IsTakenForManyChannelsAndPlaces) {
  const auto takes = [](at::IntArrayRef sizes, at::IntArrayRef weights) {
    return takes_sliding(random_map(sizes), at::zeros(weights));
  };
  EXPECT_EQ(takes({2, 64, 20, 20}, {30, 64, 3, 3}), !device::Emulation::active()) << "on a CPU";
  EXPECT_FALSE(takes({2, 64, 7, 7}, {64, 64, 3, 3})) << "few places";
  EXPECT_EQ(takes_sliding({random_map({2, 64, 7, 7}), random_map({2, 64, 9, 9})}, at::zeros({64, 64, 3, 3})),
            !device::Emulation::active())
      << "few places, but enough together";
  EXPECT_FALSE(takes({2, 60, 20, 20}, {64, 60, 3, 3})) << "channels that fill no panel";
  EXPECT_FALSE(takes({2, 64, 20, 20}, {8, 64, 3, 3})) << "few channels";
  EXPECT_FALSE(takes({2, 64, 20, 20}, {64, 64, 1, 1})) << "place by place";
  EXPECT_FALSE(takes({2, 64, 20, 20}, {64, 64, 2, 2})) << "sides that are even";
  EXPECT_EQ(takes_sliding(random_map({2, 60, 20, 20}).to(at::kBFloat16), at::zeros({64, 60, 5, 3})),
            has_bfloat16_tiles() && !device::Emulation::active())
      << "any window and channels by AMX";
  EXPECT_FALSE(takes({2, 64, 20, 20}, {64, 1, 3, 3}));
  EXPECT_FALSE(takes_sliding(at::zeros({2, 64, 20, 20}), at::zeros({64, 64, 3, 3}))) << "channels first";
}

TEST(SlidingConvolution, ByPackedWeightsIsTheSameClamped) {
  if (device::Emulation::active()) GTEST_SKIP() << "weights are packed for CPUs, the others are libtorch's there";
  at::manual_seed(10);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t side : {14, 21}) {  // tiles of 2 x 2, and larger ones
      const at::Tensor x = random_map({2, 48, side, side + 1}).to(type), weights = at::randn({35, 48, 3, 3}),
                       biases = at::randn({35}), packed = packed_for_winograd(x, weights);
      const at::Tensor plain = convolved(x, weights, biases), y = packed_winograd_convolution(x, packed, biases, {});
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
      if (type != at::kBFloat16 || !has_bfloat16_tiles()) {  // which are multiplied otherwise, unless packed
        EXPECT_TRUE(at::equal(y, plain)) << type;
      }
      EXPECT_TRUE(at::equal(packed_winograd_convolution(x, packed, biases, {.low = 0, .high = 6}), y.clamp(0, 6)))
          << type;
      EXPECT_TRUE(at::equal(packed_winograd_convolution(x, packed, biases, {.low = 0}), y.clamp_min(0))) << type;
    }
}

TEST(SlidingConvolution, IsNotPackedWhereItIsNotTaken) {
  EXPECT_EQ(packed_for_winograd(random_map({1, 64, 7, 7}), at::zeros({64, 64, 3, 3})).numel(), 0) << "few places";
  EXPECT_EQ(packed_for_winograd(random_map({2, 60, 20, 20}), at::zeros({64, 60, 3, 3})).numel(), 0);
  const at::Tensor x = random_map({1, 16, 20, 20}), packed = packed_for_winograd(x, at::zeros({16, 16, 3, 3}));
  EXPECT_THAT(
      [&] {
        packed_winograd_convolution(random_map({2, 16, 14, 14}), packed, at::zeros({16}), {});
      },
      ThrowsMessage<c10::Error>(HasSubstr("[2, 16, 14, 14]")))
      << "packed for larger tiles";
  EXPECT_THAT([&] { packed_winograd_convolution(x, packed, at::zeros({40}), {}); },
              ThrowsMessage<c10::Error>(HasSubstr("weights packed for a map")));
  const at::Tensor few = random_map({1, 8, 20, 20});
  EXPECT_THAT([&] { packed_winograd_convolution(few, at::zeros({cpu::packed_size(few, 16)}), at::zeros({16}), {}); },
              ThrowsMessage<c10::Error>(HasSubstr("too few places or channels")))
      << "channels that fill no panel";
  const at::Tensor of_small = packed_for_winograd(random_map({1, 16, 14, 14}), at::zeros({16, 16, 3, 3}));
  EXPECT_THAT(
      [&] {
        packed_winograd_convolution(random_map({1, 16, 2, 2}), of_small, at::zeros({16}), {});
      },
      ThrowsMessage<c10::Error>(HasSubstr("too few places or channels")))
      << "fewer tiles than are multiplied at a time";
  EXPECT_THAT([&] { packed_winograd_convolution(x, packed, at::zeros({16}), {.curve = Epilogue::Curve::kSwish}); },
              ThrowsMessage<c10::Error>(HasSubstr("clamped or nothing")));
}

TEST(SlidingConvolution, OfNothingIsNothing) {
  EXPECT_EQ(convolved(at::zeros({0, 16, 5, 5}), at::ones({16, 16, 3, 3})).sizes(), at::IntArrayRef({0, 16, 5, 5}));
  EXPECT_EQ(convolved(at::zeros({2, 16, 5, 5}), at::ones({0, 16, 3, 3})).sizes(), at::IntArrayRef({2, 0, 5, 5}));
}

TEST(SlidingConvolution, NamesSizesThatDisagree) {
  const at::Tensor x = at::zeros({1, 4, 5, 5}), weights = at::zeros({3, 4, 3, 3});
  EXPECT_THAT([&] { sliding_convolution(x.slice(1, 1), weights); },
              ThrowsMessage<c10::Error>(HasSubstr("[1, 3, 5, 5]")));
  EXPECT_THAT([&] { sliding_convolution_gradient(x, weights); }, ThrowsMessage<c10::Error>(HasSubstr("[1, 4, 5, 5]")));
  EXPECT_THAT([&] { sliding_convolution(x, weights.slice(2, 1)); },
              ThrowsMessage<c10::Error>(HasSubstr("[3, 4, 2, 3]")));
  EXPECT_THAT([&] { sliding_convolution(x, weights, at::zeros({4})); },
              ThrowsMessage<c10::Error>(HasSubstr("expected 3 biases")));
  EXPECT_THAT(
      [&] {
        sliding_convolution({x, x.to(at::kHalf)}, weights);
      },
      ThrowsMessage<c10::Error>(HasSubstr("expected maps of one kind")));
  EXPECT_THAT([&] { sliding_convolution(at::TensorList(), weights); },
              ThrowsMessage<c10::Error>(HasSubstr("expected maps, got none")));
  EXPECT_THAT([&] { sliding_convolution(x.to(at::kDouble), weights); },
              ThrowsMessage<c10::Error>(HasSubstr("expected maps of float32 or half the bits")));
}

}  // namespace
}  // namespace osprey::kernels
