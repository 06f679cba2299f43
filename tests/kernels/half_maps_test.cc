#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osprey/base/cpu.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/pointwise_convolution.h"
#include "osprey/kernels/sliding_convolution.h"

/// Convolutions of maps that have half the bits of a float32: their arithmetic is that of the floats, bit for bit, and
/// only results that are maps are rounded. Only where a CPU multiplies bfloat16 numbers what is multiplied is rounded.
namespace osprey::kernels {
namespace {

class HalfMaps : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { at::manual_seed(30); }

  at::Tensor map(at::IntArrayRef sizes) const {
    return at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast).to(GetParam());
  }
  void expect_rounded(const at::Tensor& half, const at::Tensor& floats, const std::string& what) const {
    ASSERT_EQ(half.defined(), floats.defined()) << what;
    if (!half.defined()) return;
    EXPECT_EQ(half.scalar_type(), GetParam()) << what;
    EXPECT_TRUE(half.is_contiguous(at::MemoryFormat::ChannelsLast)) << what;
    expect_equal(half, floats.to(GetParam()), what);
  }
  void expect_same(const at::Tensor& one, const at::Tensor& other, const std::string& what) const {
    ASSERT_EQ(one.defined(), other.defined()) << what;
    if (!one.defined()) return;
    EXPECT_EQ(one.scalar_type(), at::kFloat) << what;
    expect_equal(one, other, what);
  }
  void expect_equal(const at::Tensor& one, const at::Tensor& other, const std::string& what) const {
    if (!rounds_factors_) {
      EXPECT_TRUE(at::equal(one, other)) << what;
    } else {  // two roundings of 0.17 %, more of gradients through statistics, which are differences: 0.8 % as found
      EXPECT_LE((one - other).to(at::kDouble).norm().item<double>(), 1e-2 * other.to(at::kDouble).norm().item<double>())
          << what;
    }
  }

  void expect_normalized(const PendingMap& half, const at::Tensor& weights, const SlidingWindow& window,
                         const std::string& what) {
    rounds_factors_ = may_round() && weights.size(1) > 1;
    PendingMap floats = half;
    floats.x = half.x.to(at::kFloat);
    constexpr double kEpsilon = 1e-3;
    const MapWithStatistics result = normalized_convolution(half, weights, window, kEpsilon);
    expect_rounded(result.y, normalized_convolution(floats, weights, window, kEpsilon).y, what);
    const at::Tensor values = result.y.to(at::kDouble);
    EXPECT_TRUE(at::allclose(result.mean.to(at::kDouble), values.mean({0, 2, 3}), 1e-5, 1e-5)) << what << ", mean";

    const MapWithStatistics gradient{map(result.y.sizes()), at::randn_like(result.mean), at::randn_like(result.mean)};
    const NormalizedConvolutionGradients rough =
                                             normalized_convolution_backward(gradient, result, half, weights, window),
                                         exact = normalized_convolution_backward(
                                             {gradient.y.to(at::kFloat), gradient.mean, gradient.inverse_deviation},
                                             {result.y.to(at::kFloat), result.mean, result.inverse_deviation}, floats,
                                             weights, window);
    expect_rounded(rough.x, exact.x, what + ", gradient of x");
    expect_same(rough.weights, exact.weights, what + ", gradient of the weights");
    expect_same(rough.mean, exact.mean, what + ", gradient of the mean");
    expect_same(rough.inverse_deviation, exact.inverse_deviation, what + ", gradient of the inverse deviation");
    expect_same(rough.gamma, exact.gamma, what + ", gradient of gamma");
    expect_same(rough.beta, exact.beta, what + ", gradient of beta");
  }

  /// Whether there are convolutions, but for depthwise ones, that round what they multiply.
  static bool may_round() { return GetParam() == at::kBFloat16 && has_bfloat16_arithmetic(); }
  bool rounds_factors_ = may_round();
};

TEST_P(HalfMaps, AreNormalizedAndConvolvedAsFloats) {
  struct Moving {
    std::vector<int64_t> weights;
    SlidingWindow window;
  };
  const Moving convolutions[] = {{{47, 28, 1, 1}, {}},
                                 {{28, 1, 3, 3}, {1, {1, 1, 1, 1}}},
                                 {{28, 1, 3, 3}, {2, {0, 1, 0, 1}}},
                                 {{28, 1, 3, 3}, {3, {2, 0, 1, 2}}},
                                 {{28, 1, 5, 5}, {1, {2, 2, 2, 2}}},
                                 {{28, 1, 2, 2}, {1, {0, 4, 0, 0}}},
                                 {{33, 28, 3, 3}, {2, {1, 1, 0, 1}}},
                                 {{1600, 28, 3, 3}, {2, {1, 1, 0, 1}}}};  // more than groups of places have room for
  for (const auto& [sizes, window] : convolutions)
    for (const bool pending : {true, false})
      for (const auto& [height, width] : {std::pair<int64_t, int64_t>{2, 2}, {23, 18}}) {
        PendingMap input{.x = map({2, 28, height, width})};
        if (pending) {
          input.mean = at::randn({28}) * 0.2, input.inverse_deviation = at::rand({28}) + 0.5;
          input.gamma = at::rand({28}) + 0.5, input.beta = at::randn({28});
          input.epilogue = {.low = 0, .high = 6};
        }
        expect_normalized(input, at::randn(sizes) * 0.2, window,
                          fmt::format("{} x {}, stride {}, {} x {}, pending: {}", sizes[0], sizes[2], window.stride,
                                      height, width, pending));
      }
}

TEST_P(HalfMaps, AreMultipliedPlaceByPlaceAsFloats) {
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 3}, {19, 21}}) {
    const at::Tensor x = map({2, 20, height, width}), weights = at::randn({33, 20, 1, 1}), biases = at::randn({33});
    const at::Tensor y = pointwise_convolution(x, weights, biases);
    expect_rounded(y, pointwise_convolution(x.to(at::kFloat), weights, biases), "result");
    expect_rounded(pointwise_convolution_gradient(y, weights),
                   pointwise_convolution_gradient(y.to(at::kFloat), weights), "gradient");
  }
}

TEST_P(HalfMaps, AreConvolvedInTilesAsFloats) {
  const at::Tensor x = map({2, 48, 19, 22}), weights = at::randn({85, 48, 3, 3}), biases = at::randn({85});
  const at::Tensor y = sliding_convolution(x, weights, biases).front();
  expect_rounded(y, sliding_convolution(x.to(at::kFloat), weights, biases).front(), "result");
  expect_rounded(sliding_convolution_gradient(y, weights).front(),
                 sliding_convolution_gradient(y.to(at::kFloat), weights).front(), "gradient");
  const ConvolutionWindow window{{3, 3}, 1, {1, 1}};
  expect_same(convolution_weight_gradient(y, x, window),
              convolution_weight_gradient(y.to(at::kFloat), x.to(at::kFloat), window), "gradient of the weights");
}

TEST_P(HalfMaps, AreConvolvedChannelByChannelAsFloats) {
  rounds_factors_ = false;
  const SlidingWindow window{2, {0, 1, 0, 1}};
  const at::Tensor x = map({2, 20, 18, 21}), weights = at::randn({20, 1, 3, 3});
  const at::Tensor y = depthwise_convolution(x, weights, window);
  expect_rounded(y, depthwise_convolution(x.to(at::kFloat), weights, window), "result");
  const auto rough = depthwise_convolution_backward(y, x, weights, window),
             exact = depthwise_convolution_backward(y.to(at::kFloat), x.to(at::kFloat), weights, window);
  expect_rounded(rough.first, exact.first, "gradient");
  expect_same(rough.second, exact.second, "gradient of the weights");
}

TEST_P(HalfMaps, GiveTheGradientsOfWeightsThatFloatsGive) {
  for (const ConvolutionWindow& window :
       {ConvolutionWindow{{3, 3}, 1, {1, 1}}, {{3, 3}, 2, {1, 1}}, {{1, 1}, 1, {0, 0}}}) {
    const at::Tensor x = map({2, 20, 18, 21}),
                     y = at::conv2d(x.to(at::kFloat), at::randn({33, 20, window.kernel[0], window.kernel[1]}), {},
                                    window.stride, window.padding)
                             .to(GetParam());
    expect_same(convolution_weight_gradient(y, x, window),
                convolution_weight_gradient(y.to(at::kFloat), x.to(at::kFloat), window), "gradient");
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfMaps, ::testing::Values(at::kBFloat16, at::kHalf),
                         [](const auto& of) { return std::string(c10::toString(of.param)); });

}  // namespace
}  // namespace osprey::kernels
