#include "osprey/kernels/class_loss.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osprey/kernels/device.h"
#include "support/golden.h"

namespace osprey::kernels {
namespace {

using ::osprey::testing::expect_close;

/// The definitions, in double precision.
LossAndSlope defined(const at::Tensor& logits, const ClassTargets& targets, const SigmoidFocalOptions& options) {
  const at::Tensor x = logits.detach().to(at::kDouble).requires_grad_(true), t = targets.of_anchors().to(at::kDouble);
  const at::Tensor hit = at::sigmoid(x), miss = t * at::sigmoid(-x) + (1 - t) * hit;
  at::Tensor losses = -(t * at::log_sigmoid(x) + (1 - t) * at::log_sigmoid(-x)) * miss.pow(options.gamma);
  if (options.alpha) losses = losses * (t * *options.alpha + (1 - t) * (1 - *options.alpha));
  const at::Tensor sums = (losses * targets.weights_of_anchors().to(at::kDouble)).sum(-1);
  sums.sum().backward();
  return {sums.detach(), x.grad()};
}

LossAndSlope defined(const at::Tensor& logits, const ClassTargets& targets, double logit_scale) {
  const at::Tensor x = logits.to(at::kDouble) / logit_scale, t = targets.of_anchors().to(at::kDouble),
                   weights = targets.weights_of_anchors().to(at::kDouble).mean(-1);
  return {-(t * at::log_softmax(x, -1)).sum(-1) * weights,
          (at::softmax(x, -1) - t) * (weights / logit_scale).unsqueeze(-1)};
}

struct Shape {
  int64_t images, anchors, classes;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {2, 5, 3}, {3, 700, 4}, {2, 33, 91}, {1, 3, 2000}};
const SigmoidFocalOptions kOptions[] = {{0, {}}, {0, 0.25}, {1, {}}, {2, 0.25}, {2, {}}, {1.5, 0.75}, {0.5, 0.25}};

/// Seven rows per image, hard and soft, and an anchor for each in no order; weights by anchor or by class.
std::vector<ClassTargets> some_targets(const Shape& shape) {
  const at::Tensor row = at::randint(0, 7, {shape.images, shape.anchors}, at::kLong);
  const at::Tensor soft = at::rand({shape.images, 7, shape.classes}), hard = soft.lt(0.2).to(at::kFloat);
  const at::Tensor per_row = at::rand({shape.images, 7, 1}) * 2, per_class = at::rand_like(soft) - 0.2;
  const at::Tensor logits_like = at::rand({shape.images, shape.anchors, shape.classes});
  return {{soft, per_row, row},
          {hard, per_row, row},
          {hard, per_class, row},
          class_targets(logits_like, at::rand_like(logits_like))};
}

TEST(ClassLoss, AskedTwiceGivesTheSameGradientTwice) {
  at::manual_seed(8);
  const ClassTargets targets{at::rand({2, 5, 7}), at::rand({2, 5, 1}), at::randint(0, 5, {2, 30}, at::kLong)};
  const at::Tensor up = at::rand({2, 30}), start = at::randn({2, 30, 7});
  const auto gradient = [&](int times) {
    const at::Tensor logits = start.clone().requires_grad_();
    const at::Tensor loss = sigmoid_focal(logits, targets, {2, 0.25}).loss;
    for (int i = 0; i < times; ++i) {
      logits.mutable_grad() = at::Tensor();
      loss.backward(up, /*retain_graph=*/i + 1 < times);
    }
    return logits.grad();
  };
  EXPECT_TRUE(at::equal(gradient(1), gradient(3)));
  // The slope that a caller asks for stays what it is.
  const at::Tensor logits = start.clone().requires_grad_();
  const LossAndSlope both = sigmoid_focal(logits, targets, {2, 0.25}, /*with_slope=*/true);
  const at::Tensor slope = both.slope.clone();
  both.loss.backward(up);
  EXPECT_TRUE(at::equal(both.slope, slope));
  expect_close(logits.grad(), slope * up.unsqueeze(-1), 1e-6, 1e-7, "gradient");
}

TEST(ClassLoss, GradientsOfHalvesAreScaledInFloat32) {
  // 0.3 has no exact bfloat16: rounded before it is multiplied, it would be 0.1 % off for every gradient.
  at::manual_seed(9);
  for (const Shape& shape : kShapes)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const ClassTargets targets = some_targets(shape)[0];
      const at::Tensor start = at::randn({shape.images, shape.anchors, shape.classes}).to(type),
                       factors = at::rand({shape.images, shape.anchors}) + 0.3f;
      const at::Tensor logits = start.clone().requires_grad_(), scaled = start.clone().requires_grad_();
      const LossAndSlope shown = sigmoid_focal(logits, targets, {2, 0.25}, /*with_slope=*/true);
      shown.loss.backward(factors);
      sigmoid_focal(scaled, targets, {2, 0.25}).loss.backward(factors);
      const at::Tensor expected = (shown.slope.to(at::kFloat) * factors.unsqueeze(-1)).to(type);
      EXPECT_TRUE(at::equal(logits.grad(), expected)) << type << " " << start.sizes();
      EXPECT_TRUE(at::equal(scaled.grad(), expected)) << type << " " << start.sizes();
    }
}

TEST(SigmoidFocal, EqualsItsDefinition) {
  at::manual_seed(3);
  for (const Shape& shape : kShapes) {
    const at::Tensor logits = at::randn({shape.images, shape.anchors, shape.classes}) * 6;
    for (const ClassTargets& targets : some_targets(shape))
      for (const SigmoidFocalOptions& options : kOptions) {
        const LossAndSlope ours = sigmoid_focal(logits, targets, options, true),
                           exact = defined(logits, targets, options);
        expect_close(ours.loss, exact.loss, 1e-5, 2e-6, "loss");
        expect_close(ours.slope, exact.slope, 2e-6, 1e-5, "slope");
        const LossAndSlope alone = sigmoid_focal(logits, targets, options, false);
        EXPECT_TRUE(at::equal(alone.loss, ours.loss));
        EXPECT_FALSE(alone.slope.defined());
      }
  }
}

TEST(SoftmaxCrossEntropy, EqualsItsDefinition) {
  at::manual_seed(5);
  for (const Shape& shape : kShapes) {
    const at::Tensor logits = at::randn({shape.images, shape.anchors, shape.classes}) * 6;
    for (const ClassTargets& targets : some_targets(shape))
      for (const double scale : {1.0, 0.5, 3.0}) {
        const LossAndSlope ours = softmax_cross_entropy(logits, targets, scale, true),
                           exact = defined(logits, targets, scale);
        expect_close(ours.loss, exact.loss, 2e-6 * static_cast<double>(shape.classes), 2e-6, "loss");
        expect_close(ours.slope, exact.slope, 2e-6, 1e-5, "slope");
        const LossAndSlope alone = softmax_cross_entropy(logits, targets, scale, false);
        EXPECT_TRUE(at::equal(alone.loss, ours.loss));
        EXPECT_FALSE(alone.slope.defined());
      }
  }
}

TEST(SoftmaxCrossEntropy, SlopeIsThatOfTensorFlowWhateverTheTargetsSumTo) {
  // Softmax of 0, 0, ln 2: 0.25, 0.25, 0.5. Weight 3, logits divided by 2 before.
  const at::Tensor logits =
      at::tensor({0.0f, 0.0f, std::log(2.0f)}).mul(2).view({1, 1, 3}).expand({1, 3, 3}).contiguous();
  const at::Tensor targets = at::tensor({0.0f, 0.0f, 0.0f, 0.25f, 0.0f, 0.25f, 1.0f, 0.5f, 0.5f}).view({1, 3, 3});
  const at::Tensor softmax = at::tensor({0.25f, 0.25f, 0.5f}), expected = (softmax - targets) * 1.5;
  const auto check = [&](const char* where) {
    const at::Tensor leaf = logits.clone().requires_grad_();
    const LossAndSlope found = softmax_cross_entropy(leaf, class_targets(targets, at::full({1, 3, 1}, 3.0f)), 2, true);
    found.loss.sum().backward();
    expect_close(found.slope, expected, 1e-6, 1e-6, where);
    expect_close(leaf.grad(), expected, 1e-6, 1e-6, where);
    // 3 * (0, 0.25 ln 4 + 0.25 ln 2, 1.5 ln 4 + 0.5 ln 2)
    expect_close(found.loss[0], at::tensor({0.0f, 2.25f, 10.5f}) * std::log(2.0), 1e-6, 1e-6, where);
  };
  check("loops");
  const device::Emulation emulation;
  check("kernels for devices");
}

TEST(SoftmaxCrossEntropy, StaysFiniteFarFromZero) {
  const at::Tensor logits = at::tensor({-1e4f, 0.0f, 1e4f}).view({1, 1, 3});
  for (int64_t c = 0; c < 3; ++c) {
    const at::Tensor wanted = at::zeros({1, 1, 3});
    wanted[0][0][c] = 1;
    const LossAndSlope result = softmax_cross_entropy(logits, class_targets(wanted, at::ones({1, 1, 1})), 1, true);
    EXPECT_NEAR(result.loss.item<double>(), c == 2 ? 0 : 1e4 * static_cast<double>(2 - c), 1e-2);
    expect_close(result.slope[0][0], at::tensor({0.0f, 0.0f, 1.0f}) - wanted[0][0], 0, 1e-30, "slope");
  }
}

TEST(SigmoidFocal, StaysExactFarFromZero) {
  const at::Tensor logits = at::tensor({-80.0f, -30.0f, -1e-6f, -0.0f, 0.0f, 1e-6f, 30.0f, 80.0f}).view({1, 1, 8});
  const at::Tensor weights = at::ones({1, 1, 1});
  for (const double target : {0.0, 1.0})
    for (const SigmoidFocalOptions& options : kOptions) {
      const at::Tensor targets = at::full_like(logits, target);
      for (int64_t i = 0; i < logits.size(2); ++i) {
        const auto one = [i](const at::Tensor& all) { return all.narrow(2, i, 1).contiguous(); };
        const LossAndSlope ours = sigmoid_focal(one(logits), class_targets(one(targets), weights), options, true),
                           exact = defined(one(logits), class_targets(one(targets), weights), options);
        expect_close(ours.loss, exact.loss, 1e-30, 3e-6, "loss");
        expect_close(ours.slope, exact.slope, 1e-12, 1e-5, "slope");
      }
    }
}

using Kernel = std::function<LossAndSlope(const at::Tensor&, const ClassTargets&)>;

const std::map<std::string, Kernel>& kernels() {
  static const std::map<std::string, Kernel> all = {
      {"sigmoid focal",
       [](const at::Tensor& x, const ClassTargets& t) {
         return sigmoid_focal(x, t, {2, 0.25}, true);
       }},
      {"softmax", [](const at::Tensor& x, const ClassTargets& t) { return softmax_cross_entropy(x, t, 1, true); }}};
  return all;
}

TEST(SigmoidFocal, StaysFiniteWhereAPowerOfNearlyNothingIsLarge) {
  const at::Tensor logits = at::tensor({-100.0f, -86.0f, -20.0f, 90.0f}).view({1, 1, 4});
  const ClassTargets targets{at::zeros({1, 1, 4}), at::full({1, 1, 1}, 1e6f), at::zeros({1, 1}, at::kLong)};
  for (const double gamma : {0.01, 0.1, 0.5}) {
    const LossAndSlope found = sigmoid_focal(logits, targets, {gamma, 0.25}, /*with_slope=*/true);
    EXPECT_TRUE(at::isfinite(found.loss).all().item<bool>()) << gamma;
    EXPECT_TRUE(at::isfinite(found.slope).all().item<bool>()) << gamma << ": " << found.slope;
  }
}

TEST(ClassLoss, DoesNotDependOnTheNumberOfThreads) {
  at::manual_seed(4);
  const at::Tensor logits = at::randn({4, 5000, 21});
  const ClassTargets targets = some_targets({4, 5000, 21}).front();
  const int threads = at::get_num_threads();
  for (const auto& [name, kernel] : kernels()) {
    at::set_num_threads(1);
    const LossAndSlope alone = kernel(logits, targets);
    at::set_num_threads(3);
    const LossAndSlope shared = kernel(logits, targets);
    at::set_num_threads(threads);
    EXPECT_TRUE(at::equal(alone.loss, shared.loss)) << name;
    EXPECT_TRUE(at::equal(alone.slope, shared.slope)) << name;
  }
}

TEST(ClassLoss, LetsNotANumberThroughAndTakesNothing) {
  const at::Tensor weights = at::ones({1, 2, 1}), logits = at::zeros({1, 2, 3});
  logits[0][1][2] = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [name, kernel] : kernels()) {
    const LossAndSlope result = kernel(logits, class_targets(at::zeros_like(logits), weights));
    EXPECT_TRUE(at::isfinite(result.loss[0][0]).item<bool>()) << name;
    EXPECT_TRUE(at::isnan(result.loss[0][1]).item<bool>()) << name;
    EXPECT_TRUE(at::isnan(result.slope[0][1][2]).item<bool>()) << name;
    const LossAndSlope none = kernel(at::zeros({2, 0, 3}), class_targets(at::zeros({2, 0, 3}), at::ones({2, 0, 1})));
    EXPECT_EQ(none.loss.sizes(), (at::IntArrayRef{2, 0})) << name;
  }
}

TEST(SigmoidFocal, OfNoClassesIsZero) {
  const at::Tensor logits = at::zeros({2, 3, 0});
  for (const int64_t weights : {1, 0}) {  // by anchor, by class
    const LossAndSlope none = sigmoid_focal(logits, class_targets(logits, at::ones({2, 3, weights})), {2, 0.25}, true);
    EXPECT_TRUE(at::equal(none.loss, at::zeros({2, 3})));
    EXPECT_EQ(none.slope.sizes(), logits.sizes());
  }
}

TEST(SigmoidFocal, LetsInfinityThrough) {
  // What float16 made of a logit too far below zero is no class that is surely absent: the step must not be taken.
  for (const float infinite : {INFINITY, -INFINITY})
    for (const float target : {0.0f, 1.0f}) {
      const at::Tensor logits = at::full({1, 1, 1}, infinite);
      const ClassTargets targets = class_targets(at::full_like(logits, target), at::ones({1, 1, 1}));
      const LossAndSlope result = sigmoid_focal(logits, targets, {2, 0.25}, true);
      EXPECT_FALSE(at::isfinite(result.loss).item<bool>()) << infinite << " for a target of " << target;
    }
}

TEST(ClassLoss, NamesWhatDisagrees) {
  const at::Tensor logits = at::zeros({2, 3, 4}), weights = at::ones({2, 3, 1});
  const ClassTargets good = class_targets(logits, weights);
  const auto message = [](const Kernel& kernel, const at::Tensor& x, const ClassTargets& targets) -> std::string {
    try {
      kernel(x, targets);
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "";
  };
  using ::testing::HasSubstr;
  for (const auto& [name, kernel] : kernels()) {
    EXPECT_THAT(message(kernel, logits, class_targets(at::zeros({2, 3, 5}), weights)),
                HasSubstr("expected float32 rows of targets [2, R, 4]"));
    EXPECT_THAT(message(kernel, logits, {good.rows, at::ones({2, 2, 1}), good.row}),
                HasSubstr("expected float32 weights"));
    if (!device::reading_waits(logits)) {
      EXPECT_THAT(message(kernel, logits, {good.rows, weights, good.row + 1}), HasSubstr("lies outside [0, 3)"));
    }
    EXPECT_THAT(message(kernel, logits, {good.rows, weights, good.row.slice(1, 1)}), HasSubstr("row of each anchor"));
    EXPECT_THAT(message(kernel, logits.to(at::kDouble), good), HasSubstr("expected contiguous logits"));
  }
  EXPECT_THAT(
      [&] {
        softmax_cross_entropy(at::zeros({2, 3, 0}), class_targets(at::zeros({2, 3, 0}), weights), 1);
      },
      ::testing::ThrowsMessage<c10::Error>(HasSubstr("softmax of no classes")));
  EXPECT_FALSE(takes_class_loss(logits.transpose(1, 2)));
}

}  // namespace
}  // namespace osprey::kernels
