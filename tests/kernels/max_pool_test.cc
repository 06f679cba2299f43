// The largest values that windows see, and where their gradients go.
#include "osprey/kernels/max_pool.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace osprey::kernels {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// By libtorch, of a map that has been padded with what is smaller than all.
at::Tensor expected(const at::Tensor& x, int64_t kernel, const SlidingWindow& window) {
  const auto& [above, below, left, right] = window.padding;
  return at::max_pool2d(at::constant_pad_nd(x, {left, right, above, below}, -INFINITY), {kernel, kernel},
                        {window.stride, window.stride});
}

/// Above, below, left and right.
constexpr std::array<int64_t, 4> kPaddings[] = {{0, 0, 0, 0}, {0, 1, 0, 0}, {1, 0, 0, 1}, {0, 1, 1, 0}, {2, 2, 2, 2}};

TEST(MaxPool, GivesTheValuesAndGradientsOfLibtorch) {
  at::manual_seed(1);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const int64_t depth : {5, 16, 29})
      for (const int64_t kernel : {1, 2, 3, 5})
        for (const int64_t stride : {1, 2, 3})
          for (const std::array<int64_t, 4>& padding : kPaddings) {
            if (*std::ranges::max_element(padding) >= kernel) continue;
            const SlidingWindow window{stride, padding};
            // Many are equal, and their order counts; a window's gradient is a small integer, whose sums are exact.
            const at::Tensor values = at::randint(-3, 3, {2, depth, 7, 9}, at::kFloat).to(type),
                             x = values.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(),
                             x_of_libtorch = values.to(at::kFloat).requires_grad_();
            const at::Tensor y = max_pool(x, kernel, window), other = expected(x_of_libtorch, kernel, window);
            EXPECT_TRUE(at::equal(y.to(at::kFloat), other)) << kernel << " by " << stride << ", " << type;
            const at::Tensor gradient = at::randint(-4, 5, other.sizes(), at::kFloat);
            y.backward(gradient.to(type));
            other.backward(gradient);
            EXPECT_TRUE(at::equal(x.grad().to(at::kFloat), x_of_libtorch.grad()))
                << kernel << " by " << stride << ", " << type;
          }
}

TEST(MaxPool, WhatIsNoNumberIsTheLargest) {
  for (const int64_t depth : {1, 29}) {
    at::Tensor x = at::tensor({1.0f, NAN, 3.0f, -INFINITY}).view({1, 1, 1, 4}).expand({1, depth, 1, 4});
    const at::Tensor y = max_pool(x, 2, {2, {0, 1, 0, 0}});
    EXPECT_TRUE(y.select(3, 0).isnan().all().item<bool>());
    EXPECT_TRUE(y.select(3, 1).eq(3).all().item<bool>());
    x = at::full({1, depth, 2, 2}, -INFINITY).requires_grad_();
    max_pool(x, 2, {2, {}}).sum().backward();
    EXPECT_TRUE(at::equal(x.grad(), at::tensor({1.0f, 0.0f, 0.0f, 0.0f}).view({1, 1, 2, 2}).expand({1, depth, 2, 2})));
  }
}

TEST(MaxPool, HasWindowsOfAllTapsThatAByteCanNumber) {
  const int64_t side = kMostPoolKernel;
  const at::Tensor values = at::arange(side * side, at::kFloat).view({1, 1, side, side}).expand({1, 29, side, side}),
                   x = values.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  const at::Tensor y = max_pool(x, side, {1, {}});
  EXPECT_TRUE(y.eq(side * side - 1).all().item<bool>());
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), values.eq(side * side - 1).to(at::kFloat)));
}

TEST(MaxPool, OfNothingIsNothing) {
  for (const std::vector<int64_t>& size : {std::vector<int64_t>{0, 8, 4, 4}, {2, 0, 4, 4}})
    for (const int64_t stride : {1, 2}) {
      at::Tensor x = at::zeros(size).requires_grad_();
      const at::Tensor y = max_pool(x, 3, {stride, {1, 1, 1, 1}});
      EXPECT_EQ(y.numel(), 0);
      y.sum().backward();
      EXPECT_EQ(x.grad().sizes(), x.sizes());
    }
}

TEST(MaxPool, RefusesWindowsThatMaySeeNothing) {
  const at::Tensor x = at::zeros({1, 2, 3, 4});
  EXPECT_THAT([&] { max_pool(x, 2, {1, {2, 0, 0, 0}}); }, ThrowsMessage<c10::Error>(HasSubstr("may see nothing")));
  EXPECT_THAT([&] { max_pool(x, 4, {1, {}}); }, ThrowsMessage<c10::Error>(HasSubstr("does not fit")));
  EXPECT_THAT(
      [&] {
        max_pool(at::empty({1, 1, 50000, 50000}, at::kMeta), 2, {2, {}});
      },
      ThrowsMessage<c10::Error>(HasSubstr("fewer than 2^31 places")));
  EXPECT_THAT([&] { max_pool(x, 16, {1, {}}); }, ThrowsMessage<c10::Error>(HasSubstr("a kernel of 1 to 15")));
  EXPECT_THAT(
      [&] {
        max_pool(x.to(at::kDouble), 2, {1, {}});
      },
      ThrowsMessage<c10::Error>(HasSubstr("float32 or half the bits")));
}

}  // namespace
}  // namespace osprey::kernels
