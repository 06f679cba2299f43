#include "osprey/kernels/rounded_map.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

at::Tensor wide_map(int64_t depth) {
  return 3 * at::randn({2, depth, 7, 11}).contiguous(at::MemoryFormat::ChannelsLast);
}

PendingMap pending_of(int64_t depth, const Epilogue& epilogue) {
  return {wide_map(depth).requires_grad_(),           at::randn({depth}).requires_grad_(),
          (at::rand({depth}) + 0.5).requires_grad_(), (at::rand({depth}) + 0.5).requires_grad_(),
          at::randn({depth}).requires_grad_(),        epilogue};
}

std::vector<at::Tensor> parts_of(const PendingMap& map) {
  return {map.x, map.mean, map.inverse_deviation, map.gamma, map.beta};
}

const Epilogue kActivations[] = {
    {}, {.low = 0, .high = 6}, {.curve = Epilogue::Curve::kSwish}, {.curve = Epilogue::Curve::kHardSwish}};

/// libtorch's, which is what exported networks compute by.
at::Tensor by_libtorch(const at::Tensor& x, float low, float high, int64_t first) {
  const float scale = (high - low) / static_cast<float>(255 - first);
  const auto zero = static_cast<int64_t>(std::floor(-low / scale + 0.5f)) + first;
  return at::fake_quantize_per_tensor_affine(x, scale, std::clamp<int64_t>(zero, first, 255), first, 255);
}

TEST(RoundedMap, HasTheBitsOfLibtorchs) {
  at::manual_seed(1);
  for (const int64_t depth : {1, 19, 64})
    for (const int64_t first : {0, 1})
      for (const auto& [low, high] : {std::pair{-0.7f, 1.9f}, {0.0f, 6.0f}, {-5.0f, 0.0f}, {-1e-3f, 4.0f}}) {
        const at::Tensor x = wide_map(depth);
        EXPECT_TRUE(rounded_values({.x = x}, {.range = at::tensor({low, high}), .first = first})
                        .equal(by_libtorch(x, low, high, first)))
            << depth << " " << first << " " << low;
      }
}

TEST(RoundedMap, DoesWhatIsPendingFirst) {
  at::manual_seed(2);
  for (const int64_t depth : {19, 64})
    for (const Epilogue& epilogue : kActivations) {
      const PendingMap of = pending_of(depth, epilogue);
      const at::Tensor values = pending_values(of), range = value_range(of);
      const auto [least, largest] = at::aminmax(values.detach());
      EXPECT_TRUE(range.equal(at::stack({least.clamp_max(0), largest.clamp_min(0)})));
      const at::Tensor rounded = rounded_values(of, {.range = range});
      const float step = ((range[1] - range[0]) / 255).item<float>();
      expect_close(rounded.detach(), values.detach(), 0, 0.501 * step, "no more than half a step off");
      EXPECT_LE(std::get<0>(at::_unique2(rounded.detach())).numel(), 256);
      // A range that leaves some values out: nothing flows from those.
      const at::Tensor half = 0.5 * range, slopes = at::randn_like(values);
      const float scale = ((half[1] - half[0]) / 255).item<float>(),
                  zero = std::floor(-half[0].item<float>() / scale + 0.5f);
      const at::Tensor inside = (values >= -zero * scale) & (values <= (255 - zero) * scale);
      const auto ours = torch::autograd::grad({(rounded_values(of, {.range = half}) * slopes).sum()}, parts_of(of)),
                 theirs = torch::autograd::grad({(values * inside * slopes).sum()}, parts_of(of));
      for (size_t i = 0; i < ours.size(); ++i)
        expect_close(ours[i], theirs[i], 1e-4, 1e-4, "gradient " + std::to_string(i));
    }
}

TEST(RoundedMap, StaysAsItIsUntilItIsToBeRounded) {
  at::manual_seed(3);
  const PendingMap of = pending_of(19, {.low = 0, .high = 6});
  const RoundingGrid grid{.range = at::tensor({0.0f, 2.0f}), .rounds = at::zeros({}, at::kBool)};
  const at::Tensor ours = rounded_values(of, grid), theirs = pending_values(of);
  EXPECT_TRUE(ours.equal(theirs));
  const auto of_ours = torch::autograd::grad({ours.square().sum()}, parts_of(of)),
             of_theirs = torch::autograd::grad({theirs.square().sum()}, parts_of(of));
  for (size_t i = 0; i < of_ours.size(); ++i) EXPECT_TRUE(of_ours[i].equal(of_theirs[i])) << i;
}

TEST(RoundedMap, HasZeroInItsRange) {
  const auto range = [](float first, float second) {
    return value_range({.x = at::tensor({first, second}).view({1, 2, 1, 1})});
  };
  EXPECT_TRUE(range(2, 3).equal(at::tensor({0.0f, 3.0f})));
  EXPECT_TRUE(range(-2, -3).equal(at::tensor({-3.0f, 0.0f})));
  EXPECT_TRUE(range(0, 0).equal(at::zeros({2})));
  EXPECT_TRUE(range(kNoNumber, 1).equal(at::tensor({0.0f, 1.0f})));
  EXPECT_TRUE(range(-kInfinity, 1).equal(at::tensor({-kInfinity, 1.0f})));
}

TEST(RoundedMap, KeepsWhatIsNoNumber) {
  const at::Tensor x = at::tensor({kNoNumber, kInfinity, -kInfinity, 0.3f}).view({1, 4, 1, 1});
  const at::Tensor y = rounded_values({.x = x}, {.range = at::tensor({-1.0f, 1.0f})});
  EXPECT_TRUE(y[0][0].isnan().item<bool>());
  EXPECT_NEAR(y[0][1].item<double>(), 1, 0.01) << "what is too large becomes the largest number";
  EXPECT_NEAR(y[0][2].item<double>(), -1, 0.01);
  EXPECT_TRUE(rounded_values({.x = at::zeros({1, 4, 1, 1})}, {.range = at::zeros({2})}).equal(at::zeros({1, 4, 1, 1})));
}

TEST(RoundedMap, RefusesOtherGrids) {
  const PendingMap of{.x = at::zeros({1, 4, 1, 1})};
  EXPECT_THAT([&] { rounded_values(of, {.range = at::zeros({3})}); },
              ThrowsMessage<c10::Error>(HasSubstr("a range of two floats")));
  EXPECT_THAT([&] { rounded_values(of, {.range = at::zeros({2}), .rounds = at::ones({})}); },
              ThrowsMessage<c10::Error>(HasSubstr("one bool")));
  EXPECT_THAT([&] { rounded_values(of, {.range = at::zeros({2}), .first = 2}); },
              ThrowsMessage<c10::Error>(HasSubstr("must be 0 or 1, got 2")));
  EXPECT_THAT(
      [&] {
        rounded_values({.x = at::zeros({0, 4, 1, 1})}, {.range = at::zeros({2})});
      },
      ThrowsMessage<c10::Error>(HasSubstr("empty map")));
  EXPECT_THAT(
      [&] {
        rounded_values_backward(at::zeros({1, 3, 1, 1}), of, {.range = at::zeros({2})});
      },
      ThrowsMessage<c10::Error>(HasSubstr("expected a gradient of size")));
}

}  // namespace
}  // namespace osprey::kernels
