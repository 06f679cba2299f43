#include "osprey/kernels/convolution_gradient.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/kernels/device.h"
#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;

/// The gradient that libtorch finds, in double precision.
at::Tensor defined(const at::Tensor& gradient_y, const at::Tensor& x, const ConvolutionWindow& window) {
  const at::Tensor weights =
      at::zeros({gradient_y.size(1), x.size(1), window.kernel[0], window.kernel[1]}, at::kDouble).requires_grad_(true);
  at::conv2d(x.to(at::kDouble), weights, {}, {window.stride, window.stride}, window.padding)
      .backward(gradient_y.to(at::kDouble));
  return weights.grad();
}

const ConvolutionWindow kWindows[] = {{{1, 1}, 1, {0, 0}}, {{1, 1}, 2, {0, 0}}, {{1, 1}, 3, {0, 0}},
                                      {{1, 1}, 2, {1, 1}}, {{3, 3}, 1, {1, 1}}, {{3, 3}, 1, {0, 0}},
                                      {{3, 3}, 2, {1, 1}}, {{3, 3}, 2, {0, 0}}, {{1, 7}, 1, {0, 3}},
                                      {{5, 2}, 3, {2, 0}}, {{7, 7}, 2, {3, 3}}, {{2, 2}, 4, {1, 0}}};

TEST(ConvolutionWeightGradient, IsThatOfTheConvolution) {
  at::manual_seed(7);
  for (const ConvolutionWindow& window : kWindows)
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{7, 9}, {8, 8}, {13, 7}, {5, 7}}) {
      const at::Tensor x = at::randn({2, 5, height, width}).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor like = at::conv2d(x, at::zeros({3, 5, window.kernel[0], window.kernel[1]}), {},
                                         {window.stride, window.stride}, window.padding);
      for (const at::Tensor& gradient :
           {at::randn_like(like).contiguous(), at::randn_like(like).contiguous(at::MemoryFormat::ChannelsLast)}) {
        const at::Tensor ours = convolution_weight_gradient(gradient, x, window);
        EXPECT_TRUE(ours.is_contiguous(at::MemoryFormat::ChannelsLast));
        expect_close(ours, defined(gradient, x, window).to(at::kFloat), 1e-5, 2e-5,
                     "kernel " + std::to_string(window.kernel[0]) + " stride " + std::to_string(window.stride) +
                         " padding " + std::to_string(window.padding[0]) + " height " + std::to_string(height));
      }
    }
}

TEST(ConvolutionWeightGradient, OfOneByOneIsThatOfAnyChannelsAndPlaces) {
  at::manual_seed(8);
  for (const auto& [O, I] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {7, 17}, {16, 64}, {600, 601}})
    for (const int64_t places : {1, 6, 7, 301}) {
      const at::Tensor x = at::randn({1, I, 1, places}), gradient = at::randn({1, O, 1, places});
      const at::Tensor exact =
          gradient.to(at::kDouble).view({O, places}).mm(x.to(at::kDouble).view({I, places}).t()).view({O, I, 1, 1});
      expect_close(convolution_weight_gradient(gradient, x, {}), exact.to(at::kFloat), 1e-5, 5e-5,
                   fmt::format("{} to {} channels, {} places", I, O, places));
    }
}

TEST(ConvolutionWeightGradient, IsThatOfTheConvolutionForManyChannelsAndLines) {
  at::manual_seed(9);
  const ConvolutionWindow windows[] = {
      {{3, 3}, 1, {1, 1}}, {{1, 5}, 1, {0, 4}}, {{5, 4}, 1, {0, 0}}, {{2, 2}, 1, {3, 2}}};
  for (const ConvolutionWindow& window : windows)
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{150, 9}, {17, 140}, {270, 31}}) {
      const at::Tensor x = at::randn({2, in, 31, 45}).contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor gradient = at::randn_like(
          at::conv2d(x, at::zeros({out, in, window.kernel[0], window.kernel[1]}), {}, 1, window.padding));
      const at::Tensor ours = convolution_weight_gradient(gradient, x, window);
      // Sums of some 2,800 products of about 1, which wander to 53 and round as often at that size.
      expect_close(ours, defined(gradient, x, window).to(at::kFloat), 1e-5, 5e-4,
                   "kernel " + std::to_string(window.kernel[0]) + " channels " + std::to_string(in));
      if (device::Emulation::active()) continue;  // on a device by libtorch's products
      const int threads = at::get_num_threads();
      at::set_num_threads(threads == 1 ? 2 : 1);
      EXPECT_TRUE(at::equal(convolution_weight_gradient(gradient, x, window), ours)) << "threads change no bit";
      at::set_num_threads(threads);
    }
}

TEST(ConvolutionWeightGradient, RepeatsItselfBitForBit) {
  at::manual_seed(8);
  const at::Tensor x = at::randn({2, 64, 20, 20}).contiguous(at::MemoryFormat::ChannelsLast),
                   gradient = at::randn({2, 48, 20, 20}).contiguous(at::MemoryFormat::ChannelsLast);
  const ConvolutionWindow window{{3, 3}, 1, {1, 1}};
  EXPECT_TRUE(at::equal(convolution_weight_gradient(gradient, x, window),
                        convolution_weight_gradient(gradient.clone(), x.clone(), window)));
}

TEST(ConvolutionWeightGradient, InTilesIsTheSameForAnyNumberOfThreads) {
  if (device::Emulation::active()) GTEST_SKIP() << "on a device by libtorch's products";
  at::manual_seed(10);
  const ConvolutionWindow window{{3, 3}, 1, {1, 1}};
  const int threads = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto maps = [&](int64_t channels) {
      std::vector<at::Tensor> result;
      for (const int64_t side : {20, 7})
        result.push_back(at::randn({2, channels, side, 21}).contiguous(at::MemoryFormat::ChannelsLast).to(type));
      return result;
    };
    const std::vector<at::Tensor> x = maps(160), gradients = maps(50);
    at::set_num_threads(1);
    const at::Tensor alone = convolution_weight_gradient(gradients, x, window);
    expect_close(alone,
                 defined(gradients[0].to(at::kFloat), x[0].to(at::kFloat), window).to(at::kFloat) +
                     defined(gradients[1].to(at::kFloat), x[1].to(at::kFloat), window).to(at::kFloat),
                 0, type == at::kFloat ? 5e-4 : 1.5, "sum over both maps");
    for (const int many : {2, 3, 5}) {
      at::set_num_threads(many);
      EXPECT_TRUE(at::equal(convolution_weight_gradient(gradients, x, window), alone)) << many << " threads";
    }
  }
  at::set_num_threads(threads);
}

TEST(ConvolutionWeightGradient, NamesSizesThatDisagree) {
  EXPECT_THAT(
      [] {
        convolution_weight_gradient(at::zeros({1, 2, 4, 5}), at::zeros({1, 3, 5, 5}), {});
      },
      ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("[1, 3, 5, 5] has no gradient of [1, 2, 4, 5]")));
}

TEST(ConvolutionWeightGradient, RefusesWindowsThatThereAreNot) {
  const auto of = [](int64_t side, int64_t of_gradient, const ConvolutionWindow& window) {
    return [=] {
      convolution_weight_gradient(at::zeros({1, 2, of_gradient, of_gradient}), at::zeros({1, 3, side, side}), window);
    };
  };
  const auto refuses = [](const char* message) {
    return ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr(message));
  };
  EXPECT_THAT(of(9, 5, {{3, 3}, 1, {-1, -1}}), refuses("no negative padding"));
  EXPECT_THAT(of(5, 6, {{0, 0}, 1, {0, 0}}), refuses("a kernel of 1 x 1 or more"));
  // (2 - 3) / 2 + 1 would be 1, were -1 / 2 rounded up.
  EXPECT_THAT(of(2, 1, {{3, 3}, 2, {0, 0}}), refuses("has no gradient of"));
}

TEST(ConvolutionWeightGradient, IsTakenWhereItPays) {
  const auto taken = [](at::IntArrayRef x, at::IntArrayRef weights, const ConvolutionWindow& window) {
    return multiplies_weight_gradient(at::empty(x).contiguous(at::MemoryFormat::ChannelsLast), at::empty(weights),
                                      window);
  };
  const ConvolutionWindow square{{3, 3}, 1, {1, 1}};
  EXPECT_TRUE(taken({2, 256, 40, 40}, {256, 256, 3, 3}, square));
  EXPECT_TRUE(taken({2, 256, 40, 40}, {512, 256, 1, 1}, {{1, 1}, 2, {0, 0}}));
  const ConvolutionWindow stepping{{3, 3}, 2, {1, 1}};
  EXPECT_FALSE(taken({2, 3, 64, 64}, {64, 3, 3, 3}, square)) << "few channels";
  EXPECT_FALSE(taken({2, 32, 64, 64}, {64, 32, 3, 3}, stepping)) << "few channels";
  EXPECT_FALSE(taken({2, 256, 3, 3}, {256, 256, 3, 3}, stepping)) << "mostly padding";
  EXPECT_FALSE(multiplies_weight_gradient(at::empty({2, 64, 20, 20}), at::empty({64, 64, 3, 3}), square))
      << "not channels_last";
}

TEST(ConvolutionWeightGradient, OfNoChannelsHasNoNumbers) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [O, I] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}}) {
      const auto map = [&](int64_t channels) { return at::empty({2, channels, 6, 7}, type); };
      EXPECT_EQ(convolution_weight_gradient(map(O), map(I), {}).sizes(), (std::vector<int64_t>{O, I, 1, 1}));
    }
}

}  // namespace
}  // namespace osprey::kernels
