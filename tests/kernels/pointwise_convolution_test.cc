#include "osprey/kernels/pointwise_convolution.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(PointwiseConvolution, IsTheConvolutionAndItsGradient) {
  at::manual_seed(5);
  // Fewer places than a tile has, one tile, tiles and some more, several tasks; channels that fill one panel, several
  // and some of the last.
  for (const auto& [batch, height, width] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                             {1, 2, 3},
                                             {2, 6, 1},
                                             {1, 1, 13},
                                             {1, 4, 5},
                                             {3, 11, 17},
                                             {1, 40, 41}})
    for (const auto& [in, out] : {std::pair<int64_t, int64_t>{1, 1}, {3, 16}, {16, 5}, {33, 47}, {20, 60}, {64, 32}}) {
      const at::Tensor x = at::randn({batch, in, height, width}).contiguous(at::MemoryFormat::ChannelsLast),
                       weights = at::randn({out, in, 1, 1}), biases = at::randn({out});
      const at::Tensor exact = x.to(at::kDouble).requires_grad_(true);
      const at::Tensor defined = at::conv2d(exact, weights.to(at::kDouble), biases.to(at::kDouble));
      const std::string what = fmt::format("{} x {} x {}, {} to {}", batch, height, width, in, out);
      const at::Tensor y = pointwise_convolution(x, weights, biases);
      EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast)) << what;
      // Sums of up to 64 products of normal numbers.
      expect_close(y, defined.detach().to(at::kFloat), 1e-5, 1e-5, what);
      expect_close(pointwise_convolution(x, weights), (defined - biases.view({1, -1, 1, 1})).detach().to(at::kFloat),
                   1e-5, 1e-5, what + ", no biases");
      for (const at::Tensor& gradient : {at::randn_like(y), at::randn_like(y).contiguous()}) {
        exact.mutable_grad() = at::Tensor();
        defined.backward(gradient.to(at::kDouble), /*retain_graph=*/true);
        expect_close(pointwise_convolution_gradient(gradient, weights), exact.grad().to(at::kFloat), 1e-5, 1e-5,
                     what + ", gradient");
      }
    }
}

TEST(PointwiseConvolution, GradientsFlowToAllThatItIsMadeOf) {
  at::manual_seed(6);
  const auto wanted = [](const at::Tensor& tensor) { return tensor.detach().clone().requires_grad_(); };
  const at::Tensor biases = wanted(at::randn({23})), same_biases = wanted(biases);
  const at::Tensor x = wanted(at::randn({2, 19, 7, 5}).contiguous(at::MemoryFormat::ChannelsLast)), same_x = wanted(x),
                   weights = wanted(at::randn({23, 19, 1, 1})), same_weights = wanted(weights),
                   gradient = at::randn({2, 23, 7, 5});
  pointwise_convolution(x, weights, biases).backward(gradient);
  at::conv2d(same_x, same_weights, same_biases).backward(gradient);
  expect_close(x.grad(), same_x.grad(), 1e-5, 1e-5, "x");
  expect_close(weights.grad(), same_weights.grad(), 1e-4, 1e-4, "weights");
  expect_close(biases.grad(), same_biases.grad(), 1e-5, 1e-5, "biases");

  // The other way round it is the same matrix, transposed.
  const at::Tensor y = wanted(gradient), same_y = wanted(gradient), of_x = at::randn({2, 19, 7, 5});
  weights.mutable_grad() = same_weights.mutable_grad() = at::Tensor();
  pointwise_convolution_gradient(y, weights).backward(of_x);
  at::conv_transpose2d(same_y, same_weights).backward(of_x);
  expect_close(y.grad(), same_y.grad(), 1e-5, 1e-5, "y");
  expect_close(weights.grad(), same_weights.grad(), 1e-4, 1e-4, "weights, transposed");
}

TEST(PointwiseConvolution, OfNothingIsNothing) {
  const at::Tensor none = at::zeros({0, 4, 5, 5}), weights = at::ones({3, 4, 1, 1});
  EXPECT_EQ(pointwise_convolution(none, weights).sizes(), at::IntArrayRef({0, 3, 5, 5}));
  const at::Tensor x = at::ones({2, 4, 5, 5});
  EXPECT_EQ(pointwise_convolution(x, at::ones({0, 4, 1, 1})).sizes(), at::IntArrayRef({2, 0, 5, 5}));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor y = pointwise_convolution(at::ones({2, 0, 5, 5}, type), at::ones({3, 0, 1, 1}), at::ones({3}));
    EXPECT_TRUE(at::equal(y, at::ones({2, 3, 5, 5}, type))) << type;
  }
}

TEST(PointwiseConvolution, NamesSizesThatDisagree) {
  const at::Tensor x = at::zeros({1, 4, 5, 5}), weights = at::zeros({3, 4, 1, 1});
  EXPECT_THAT([&] { pointwise_convolution(x.slice(1, 1), weights); },
              ThrowsMessage<c10::Error>(HasSubstr("[1, 3, 5, 5]")));
  EXPECT_THAT([&] { pointwise_convolution_gradient(x, weights); },
              ThrowsMessage<c10::Error>(HasSubstr("[1, 4, 5, 5]")));
  EXPECT_THAT(
      [&] {
        pointwise_convolution(x, at::zeros({3, 4, 3, 3}));
      },
      ThrowsMessage<c10::Error>(HasSubstr("[3, 4, 3, 3]")));
  EXPECT_THAT([&] { pointwise_convolution(x, weights, at::zeros({4})); },
              ThrowsMessage<c10::Error>(HasSubstr("expected 3 biases")));
  EXPECT_THAT([&] { pointwise_convolution(x.to(at::kDouble), weights); },
              ThrowsMessage<c10::Error>(HasSubstr("expected maps of float32 or half the bits")));
}

}  // namespace
}  // namespace osprey::kernels
