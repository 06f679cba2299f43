// The first convolution of a network as GPUs make it.
#include "../src/nn/folded_convolution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/golden.h"

namespace osprey::nn {
namespace {

using ::osprey::testing::expect_close;

TEST(FoldedConvolution, IsTheConvolutionHoweverPicturesArePadded) {
  at::manual_seed(2);
  for (const Padding padding : {Padding::kValid, Padding::kSame, Padding::kFixed})
    for (const int64_t kernel : {1, 2, 3, 7})
      for (const int64_t height : {8, 9, 10, 11})
        for (const int64_t channels : {1, 3, 4}) {
          const int64_t width = 13;
          const at::Tensor x = at::randn({2, channels, height, width}).contiguous(at::MemoryFormat::ChannelsLast),
                           biases = at::randn({6});
          const at::Tensor start = at::randn({6, channels, kernel, kernel});
          const at::Tensor weights = start.clone().requires_grad_(), plain = start.clone().requires_grad_();
          const PaddingAmount rows = padding_amount(padding, height, kernel, 2),
                              columns = padding_amount(padding, width, kernel, 2);
          const at::Tensor y = folded_convolution(x, weights, biases,
                                                  {2, {rows.before, rows.after, columns.before, columns.after}}),
                           other = at::conv2d(
                               at::constant_pad_nd(x, {columns.before, columns.after, rows.before, rows.after}), plain,
                               biases, 2);
          const std::string what = std::to_string(kernel) + " over " + std::to_string(height) + " lines of " +
                                   std::to_string(channels) + " channels";
          ASSERT_EQ(y.sizes(), other.sizes()) << what;
          expect_close(y, other, 1e-5, 1e-5, what);
          const at::Tensor gradient = at::randn(other.sizes());
          y.backward(gradient);
          other.backward(gradient);
          expect_close(weights.grad(), plain.grad(), 1e-5, 1e-4, what + ", weights");
        }
}

}  // namespace
}  // namespace osprey::nn
