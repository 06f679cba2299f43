#include "osprey/kernels/sigmoid_focal.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;

/// The definition, in double precision.
LossAndSlope defined(const at::Tensor& logits, const at::Tensor& targets, const at::Tensor& weights,
                     const SigmoidFocalOptions& options) {
  const at::Tensor x = logits.detach().to(at::kDouble).requires_grad_(true), t = targets.to(at::kDouble);
  const at::Tensor hit = at::sigmoid(x), miss = t * at::sigmoid(-x) + (1 - t) * hit;
  at::Tensor losses = -(t * at::log_sigmoid(x) + (1 - t) * at::log_sigmoid(-x)) * miss.pow(options.gamma);
  if (options.alpha) losses = losses * (t * *options.alpha + (1 - t) * (1 - *options.alpha));
  const at::Tensor sums = (losses * weights.to(at::kDouble)).sum(-1);
  sums.sum().backward();
  return {sums.detach(), x.grad()};
}

struct Shape {
  int64_t images, anchors, classes;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {2, 5, 3}, {3, 700, 4}, {2, 33, 91}, {1, 3, 2000}};
const SigmoidFocalOptions kOptions[] = {{0, {}}, {0, 0.25}, {1, {}}, {2, 0.25}, {2, {}}, {1.5, 0.75}, {0.5, 0.25}};

TEST(SigmoidFocal, EqualsItsDefinition) {
  at::manual_seed(3);
  for (const Shape& shape : kShapes) {
    const at::Tensor logits = at::randn({shape.images, shape.anchors, shape.classes}) * 6;
    const at::Tensor hard = at::rand_like(logits).lt(0.2).to(at::kFloat), soft = at::rand_like(logits);
    const at::Tensor per_anchor = at::rand({shape.images, shape.anchors, 1}) * 2;
    const at::Tensor expanded = per_anchor.expand_as(logits), per_class = at::rand_like(logits) - 0.2;
    for (const SigmoidFocalOptions& options : kOptions)
      for (const at::Tensor& targets : {hard, soft})
        for (const at::Tensor& weights : {per_anchor, expanded, per_class}) {
          const LossAndSlope ours = sigmoid_focal(logits, targets, weights, options, true),
                             exact = defined(logits, targets, weights, options);
          expect_close(ours.loss, exact.loss, 1e-5, 2e-6, "loss");
          expect_close(ours.slope, exact.slope, 2e-6, 1e-5, "slope");
          const LossAndSlope alone = sigmoid_focal(logits, targets, weights, options, false);
          EXPECT_TRUE(at::equal(alone.loss, ours.loss));
          EXPECT_FALSE(alone.slope.defined());
        }
  }
}

TEST(SigmoidFocal, StaysExactFarFromZero) {
  const at::Tensor logits = at::tensor({-80.0f, -30.0f, -1e-6f, 0.0f, 1e-6f, 30.0f, 80.0f}).view({1, 1, 7});
  const at::Tensor weights = at::ones({1, 1, 1});
  for (const double target : {0.0, 1.0})
    for (const SigmoidFocalOptions& options : kOptions) {
      const at::Tensor targets = at::full_like(logits, target);
      for (int64_t i = 0; i < logits.size(2); ++i) {
        const auto one = [i](const at::Tensor& all) { return all.narrow(2, i, 1).contiguous(); };
        const LossAndSlope ours = sigmoid_focal(one(logits), one(targets), weights, options, true),
                           exact = defined(one(logits), one(targets), weights, options);
        expect_close(ours.loss, exact.loss, 1e-30, 3e-6, "loss");
        expect_close(ours.slope, exact.slope, 1e-12, 1e-5, "slope");
      }
    }
}

TEST(SigmoidFocal, DoesNotDependOnTheNumberOfThreads) {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({4, 3000, 21}), targets = at::rand_like(logits).lt(0.1).to(at::kFloat);
  const at::Tensor weights = at::rand({4, 3000, 1});
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const LossAndSlope alone = sigmoid_focal(logits, targets, weights, {2, 0.25}, true);
  at::set_num_threads(3);
  const LossAndSlope shared = sigmoid_focal(logits, targets, weights, {2, 0.25}, true);
  at::set_num_threads(threads);
  EXPECT_TRUE(at::equal(alone.loss, shared.loss));
  EXPECT_TRUE(at::equal(alone.slope, shared.slope));
}

TEST(SigmoidFocal, LetsNotANumberThroughAndTakesNothing) {
  const at::Tensor weights = at::ones({1, 2, 1}), logits = at::zeros({1, 2, 3});
  logits[0][1][2] = std::numeric_limits<float>::quiet_NaN();
  const LossAndSlope result = sigmoid_focal(logits, at::zeros_like(logits), weights, {2, 0.25}, true);
  EXPECT_TRUE(at::isfinite(result.loss[0][0]).item<bool>());
  EXPECT_TRUE(at::isnan(result.loss[0][1]).item<bool>());
  EXPECT_TRUE(at::isnan(result.slope[0][1][2]).item<bool>());
  const LossAndSlope none = sigmoid_focal(at::zeros({2, 0, 3}), at::zeros({2, 0, 3}), at::ones({2, 0, 1}), {}, true);
  EXPECT_EQ(none.loss.sizes(), (at::IntArrayRef{2, 0}));
}

TEST(SigmoidFocal, NamesShapesThatDisagree) {
  const at::Tensor logits = at::zeros({2, 3, 4}), weights = at::ones({2, 3, 1});
  using ::testing::HasSubstr;
  EXPECT_THAT(
      [&] {
        sigmoid_focal(logits, at::zeros({2, 3, 5}), weights, {}, false);
      },
      ::testing::ThrowsMessage<c10::Error>(HasSubstr("expected float32 targets [2, 3, 4]")));
  EXPECT_THAT(
      [&] {
        sigmoid_focal(logits, logits, at::ones({2, 3, 2}), {}, false);
      },
      ::testing::ThrowsMessage<c10::Error>(HasSubstr("expected float32 weights")));
  EXPECT_THAT([&] { sigmoid_focal(logits.to(at::kDouble), logits, weights, {}, false); },
              ::testing::ThrowsMessage<c10::Error>(HasSubstr("expected contiguous float32 logits")));
  EXPECT_FALSE(fuses_sigmoid_focal(logits.transpose(1, 2)));
}

}  // namespace
}  // namespace osprey::kernels
