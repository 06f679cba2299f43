#include "osprey/kernels/depthwise_convolution.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// What libtorch makes of it in double precision: result, gradient of x, gradient of the weights.
struct Defined {
  Defined(const at::Tensor& x, const at::Tensor& weights, const SlidingWindow& window) {
    input = x.to(at::kDouble).requires_grad_(true);
    kernel = weights.to(at::kDouble).requires_grad_(true);
    const auto& [top, bottom, left, right] = window.padding;
    y = at::conv2d(at::constant_pad_nd(input, {left, right, top, bottom}), kernel, {}, {window.stride, window.stride},
                   at::IntArrayRef{0, 0}, {1, 1}, x.size(1));
  }
  at::Tensor input, kernel, y;
};

TEST(DepthwiseConvolution, IsTheConvolutionOfEachChannelAndItsGradients) {
  at::manual_seed(11);
  const SlidingWindow windows[] = {{1, {1, 1, 1, 1}}, {2, {0, 1, 0, 1}}, {2, {1, 1, 1, 1}}, {1, {0, 0, 0, 0}},
                                   {3, {2, 0, 1, 2}}, {4, {0, 0, 3, 3}}, {1, {4, 0, 1, 6}}, {2, {3, 0, 0, 5}}};
  for (const SlidingWindow& window : windows)
    for (const auto& [height, width] : {std::pair<int64_t, int64_t>{3, 3}, {1, 7}, {5, 5}, {2, 4}})
      for (const auto& [rows, columns, depth] :
           {std::tuple<int64_t, int64_t, int64_t>{7, 9, 5}, {40, 7, 16}, {8, 8, 33}, {13, 17, 132}}) {
        const at::Tensor x = at::randn({2, depth, rows, columns}).contiguous(at::MemoryFormat::ChannelsLast),
                         weights = at::randn({depth, 1, height, width});
        Defined defined(x, weights, window);
        const std::string what =
            fmt::format("kernel {}x{} stride {} map {}x{}x{}", height, width, window.stride, rows, columns, depth);
        const at::Tensor y = depthwise_convolution(x, weights, window);
        EXPECT_TRUE(y.is_contiguous(at::MemoryFormat::ChannelsLast));
        expect_close(y, defined.y.to(at::kFloat), 1e-5, 1e-5, what);
        for (const at::Tensor& gradient : {at::randn_like(y), at::randn_like(y).contiguous()}) {
          const auto [of_x, of_weights] = depthwise_convolution_backward(gradient, x, weights, window);
          defined.input.mutable_grad() = defined.kernel.mutable_grad() = at::Tensor();
          defined.y.backward(gradient.to(at::kDouble), /*retain_graph=*/true);
          expect_close(of_x, defined.input.grad().to(at::kFloat), 1e-5, 1e-5, what + ", x");
          expect_close(of_weights, defined.kernel.grad().to(at::kFloat), 1e-5, 1e-4, what + ", weights");
        }
      }
}

TEST(DepthwiseConvolution, LeavesTheGradientOfTheMapOut) {
  const at::Tensor x = at::randn({1, 4, 5, 5}), weights = at::randn({4, 1, 3, 3});
  const SlidingWindow window{1, {1, 1, 1, 1}};
  const auto [of_x, of_weights] = depthwise_convolution_backward(x, x, weights, window, /*of_x=*/false);
  EXPECT_FALSE(of_x.defined());
  EXPECT_TRUE(at::equal(of_weights, depthwise_convolution_backward(x, x, weights, window).second));
}

TEST(DepthwiseConvolution, OfNothingButPaddingIsZero) {
  const at::Tensor none = at::zeros({1, 4, 0, 5}), weights = at::ones({4, 1, 3, 3});
  const SlidingWindow window{1, {2, 2, 1, 1}};  // 0 + 4 lines, of which windows of 3 see 2
  const at::Tensor y = depthwise_convolution(none, weights, window);
  EXPECT_TRUE(at::equal(y, at::zeros({1, 4, 2, 5})));
  const auto [of_x, of_weights] = depthwise_convolution_backward(at::ones_like(y), none, weights, window);
  EXPECT_EQ(of_x.sizes(), none.sizes());
  EXPECT_TRUE(at::equal(of_weights, at::zeros_like(weights)));
}

TEST(DepthwiseConvolution, NamesSizesThatDisagree) {
  const at::Tensor x = at::zeros({1, 4, 5, 5}), weights = at::zeros({4, 1, 3, 3});
  EXPECT_THAT([&] { depthwise_convolution(x, weights.slice(0, 1), {}); },
              ThrowsMessage<c10::Error>(HasSubstr("[1, 4, 5, 5]")));
  EXPECT_THAT([&] { depthwise_convolution(x.slice(2, 3), weights, {}); },
              ThrowsMessage<c10::Error>(HasSubstr("does not move over")));
  EXPECT_THAT([&] { depthwise_convolution_backward(x, x, weights, {}); },
              ThrowsMessage<c10::Error>(HasSubstr("no gradient of")));
  EXPECT_THAT([&] { depthwise_convolution(x.to(at::kDouble), weights, {}); },
              ThrowsMessage<c10::Error>(HasSubstr("expected maps of float32 or half the bits")));
}

}  // namespace
}  // namespace osprey::kernels
