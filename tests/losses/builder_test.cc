#include "osprey/losses/builder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "osprey/config/parse.h"
#include "osprey/protos/losses.pb.h"

namespace osprey::losses {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr const char* kBoth =
    "classification_loss { weighted_sigmoid {} }\nlocalization_loss { weighted_smooth_l1 {} }\n";

LossSet build(const std::string& text) { return build_losses(config::parse<proto::Loss>(text, "test.config").node()); }

/// Loss of one anchor with one class.
double one_anchor(const std::string& text, double logit, double target) {
  const auto loss = build_classification_loss(config::parse<proto::ClassificationLoss>(text).node());
  return (*loss)(at::full({1, 1, 1}, logit), at::full({1, 1, 1}, target), at::ones({1, 1, 1})).item<double>();
}

TEST(LossBuilder, BuildsBothLossesAndTheirWeights) {
  const LossSet set = build(std::string(kBoth) + "classification_weight: 2 localization_weight: 0.5");
  EXPECT_NE(set.classification, nullptr);
  EXPECT_NE(set.localization, nullptr);
  EXPECT_EQ(set.miner, nullptr);
  EXPECT_EQ(set.classification_weight, 2);
  EXPECT_EQ(set.localization_weight, 0.5);
}

TEST(LossBuilder, TheMinerKnowsTheWeightsOfTheLosses) {
  const LossSet set =
      build(std::string(kBoth) + "classification_weight: 2 hard_example_miner { loss_type: LOCALIZATION }");
  EXPECT_EQ(set.miner->options().classification_weight, 2);
  EXPECT_EQ(set.miner->options().num_hard_examples, 64);
  EXPECT_EQ(set.miner->options().rank, MinerOptions::Rank::kLocalization);
}

TEST(LossBuilder, NegativeGammaIsReportedWithItsLine) {
  EXPECT_THAT(
      [] {
        build(
            "localization_loss { l1_localization_loss {} }\nclassification_loss {\n weighted_sigmoid_focal {\n  gamma: "
            "-1\n} }");
      },
      ThrowsMessage<ConfigError>(
          AllOf(HasSubstr("test.config:4:"), HasSubstr("weighted_sigmoid_focal.gamma: must be >= 0, got -1"))));
}

TEST(LossBuilder, AMissingChoiceIsNamed) {
  EXPECT_THAT([] { build("localization_loss { weighted_l2 {} }"); },
              ThrowsMessage<ConfigError>(HasSubstr("classification_loss")));
  EXPECT_THAT([] { build("classification_loss {} localization_loss { weighted_l2 {} }"); },
              ThrowsMessage<ConfigError>(HasSubstr("no classification_loss is chosen")));
}

TEST(LossBuilder, ValuesOutOfRangeAreRefused) {
  for (const char* text : {"weighted_smooth_l1 { delta: 0 }"})
    EXPECT_THROW(build_localization_loss(config::parse<proto::LocalizationLoss>(text).node()), ConfigError) << text;
  for (const char* text : {"weighted_sigmoid_focal { alpha: 1.5 }", "weighted_softmax { logit_scale: 0 }",
                           "weighted_logits_softmax { logit_scale: -1 }", "bootstrapped_sigmoid { alpha: 2 }",
                           "penalty_reduced_logistic_focal_loss { beta: -1 }"})
    EXPECT_THROW(build_classification_loss(config::parse<proto::ClassificationLoss>(text).node()), ConfigError) << text;
  for (const char* text : {"iou_threshold: 1.1", "num_hard_examples: -1", "max_negatives_per_positive: -3"})
    EXPECT_THROW(build_hard_example_miner(config::parse<proto::HardExampleMiner>(text).node(), 1, 1), ConfigError)
        << text;
  EXPECT_THROW(build(std::string(kBoth) + "classification_weight: -1"), ConfigError);
}

TEST(LossBuilder, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT([] { build(kBoth + std::string("expected_loss_weights: EXPECTED_SAMPLING")); },
              ThrowsMessage<ConfigError>(HasSubstr("is not supported yet: expected_loss_weights")));
  EXPECT_THAT(
      [] {
        build(
            "classification_loss { weighted_dice_classification_loss {} } localization_loss { weighted_l2 {} }\n"
            "hard_example_miner {}");
      },
      ThrowsMessage<ConfigError>(HasSubstr("hard_example_miner: needs the loss of each anchor")));
}

TEST(FocalLoss, IsHalfTheCrossEntropyAtGammaZeroAlphaHalf) {
  // Logit 0: p = 0.5, cross entropy = ln 2 = 0.6931, half of it 0.3466.
  EXPECT_NEAR(one_anchor("weighted_sigmoid_focal { gamma: 0 alpha: 0.5 }", 0, 1), 0.3466, 1e-4);
}

TEST(FocalLoss, WithoutAlphaBothSidesCountOne) {
  // gamma 2 by default: 0.5^2 * ln 2 = 0.1733 for either target.
  EXPECT_NEAR(one_anchor("weighted_sigmoid_focal {}", 0, 1), 0.1733, 1e-4);
  EXPECT_NEAR(one_anchor("weighted_sigmoid_focal {}", 0, 0), 0.1733, 1e-4);
}

TEST(FocalLoss, StaysFiniteForExtremeLogitsAndSmallGamma) {
  const auto loss = build_classification_loss(
      config::parse<proto::ClassificationLoss>("weighted_sigmoid_focal { gamma: 0.5 alpha: 0.25 }").node());
  at::Tensor logits = at::tensor({-200.f, 200.f, -88.f, 88.f, 0.f}).view({1, 5, 1}).requires_grad_(true);
  for (double target : {0., 1.}) {
    const at::Tensor value = (*loss)(logits, at::full({1, 5, 1}, target), at::ones({1, 5, 1}));
    value.sum().backward();
    EXPECT_TRUE(value.isfinite().all().item<bool>());
    EXPECT_TRUE(logits.grad().isfinite().all().item<bool>()) << logits.grad();
  }
}

TEST(DiceLoss, SidesOfASizeBelowOneCountAsOne) {
  // Logit 0: p = 0.5. With target 1 their size is 1.5: 1 - 2 * 0.5 / 1.5 = 1/3. With weight 0.4 it is 0.6, which counts
  // as 1: 1 - 2 * (0.5 * 0.4) * 0.4 = 0.84, whose slope is -2 * 0.4 * 0.4 * p (1 - p) = -0.08. With weight 0 it is 1.
  const auto loss = build_classification_loss(
      config::parse<proto::ClassificationLoss>("weighted_dice_classification_loss {}").node());
  const auto value_and_slope = [&](double weight) {
    const at::Tensor logits = at::zeros({1, 1, 1}).requires_grad_(true);
    const at::Tensor value = (*loss)(logits, at::ones({1, 1, 1}), at::full({1, 1, 1}, weight));
    value.sum().backward();
    return std::pair(value.item<double>(), logits.grad().item<double>());
  };
  EXPECT_NEAR(value_and_slope(1).first, 1.0 / 3, 1e-6);
  EXPECT_NEAR(value_and_slope(0.4).first, 0.84, 1e-6);
  EXPECT_NEAR(value_and_slope(0.4).second, -0.08, 1e-6);
  EXPECT_EQ(value_and_slope(0), std::pair(1.0, 0.0));
}

TEST(SoftmaxLoss, SlopeIsThatOfTensorFlowWhateverTheTargetsSumTo) {
  // Softmax of 0, 0, ln 2: 0.25, 0.25, 0.5; double logits are not the kernel's.
  const auto loss = build_classification_loss(config::parse<proto::ClassificationLoss>("weighted_softmax {}").node());
  const at::Tensor start = at::tensor({0.0, 0.0, std::log(2.0)}, at::kDouble).view({1, 1, 3}).expand({1, 3, 3}),
                   targets = at::tensor({0.0, 0.0, 0.0, 0.25, 0.0, 0.25, 1.0, 0.5, 0.5}, at::kDouble).view({1, 3, 3}),
                   weights = at::full({1, 3, 1}, 2.0, at::kDouble), expected = 2 * (start.exp() / 4 - targets);
  for (const auto type : {at::kFloat, at::kDouble})
    for (const bool summed : {false, true}) {
      const at::Tensor logits = start.to(type).clone(at::MemoryFormat::Contiguous).requires_grad_(true);
      const at::Tensor value =
          summed ? loss->summed(logits, class_targets(targets, weights)) : (*loss)(logits, targets, weights);
      value.sum().backward();
      EXPECT_TRUE(logits.grad().allclose(expected.to(type), 1e-5, 1e-6)) << logits.grad();
    }
}

TEST(GiouLoss, IsOneWhereFlippedCornersEncloseNoArea) {
  // Both boxes end in y before they begin: the area around both is (0.2 - 0.6) * 0.8 < 0.
  const auto loss = build_localization_loss(config::parse<proto::LocalizationLoss>("weighted_giou {}").node());
  for (const auto type : {at::kFloat, at::kDouble}) {
    const at::Tensor boxes =
        at::tensor({0.6, 0.1, 0.2, 0.9}, at::kDouble).view({1, 1, 4}).to(type).requires_grad_(true);
    const at::Tensor targets = at::tensor({0.7, 0.2, 0.1, 0.8}, at::kDouble).view({1, 1, 4}).to(type);
    const at::Tensor value = (*loss)(boxes, targets, at::full({1, 1}, 3.0, type));
    value.sum().backward();
    EXPECT_EQ(value.item<double>(), 3);
    EXPECT_TRUE(boxes.grad().equal(at::zeros_like(boxes)));
  }
}

TEST(LocalizationLoss, ATargetThatIsNanAddsNothing) {
  const auto loss = build_localization_loss(config::parse<proto::LocalizationLoss>("l1_localization_loss {}").node());
  at::Tensor codes = at::tensor({1.f, 2.f}).view({1, 1, 2}).requires_grad_(true);
  const at::Tensor value = (*loss)(codes, at::tensor({NAN, 0.5f}).view({1, 1, 2}), at::ones({1, 1}));
  value.sum().backward();
  EXPECT_TRUE(value.equal(at::tensor({0.f, 1.5f}).view({1, 1, 2})));
  EXPECT_TRUE(codes.grad().equal(at::tensor({0.f, 1.f}).view({1, 1, 2})));
}

TEST(LocalizationLoss, PerAnchorSumsTheCodesOfAnyShapeOfLoss) {
  const at::Tensor codes = at::arange(12, at::kFloat).view({2, 3, 2});
  EXPECT_TRUE(per_anchor(codes, 2, 3).equal(codes.sum(2)));
  EXPECT_TRUE(per_anchor(at::arange(6), 2, 3).equal(at::arange(6).view({2, 3})));
  EXPECT_THROW(per_anchor(codes, 3, 2), c10::Error);
}

}  // namespace
}  // namespace osprey::losses
