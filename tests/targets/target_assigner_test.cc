#include "osprey/targets/target_assigner.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/config/parse.h"
#include "osprey/kernels/device.h"
#include "osprey/protos/ssd.pb.h"
#include "osprey/targets/builder.h"
#include "support/golden.h"

namespace osprey::targets {
namespace {

using osprey::testing::expect_close;

std::unique_ptr<TargetAssigner> assigner(const std::string& more = "",
                                         const std::string& matcher = "argmax_matcher { unmatched_threshold: 0.3 }",
                                         const std::string& similarity = "iou_similarity {}",
                                         const std::string& coder = "mean_stddev_box_coder { stddev: 1 }") {
  const auto parsed = config::parse<proto::Ssd>("num_classes: 2 matcher { " + matcher + " } similarity_calculator { " +
                                                    similarity + " } box_coder { " + coder + " } " + more,
                                                "test");
  return build_target_assigner(parsed.node());
}

// Anchors that overlap the box by 1, 0.5, 0.4 and 0: matched, matched, ignored and background.
at::Tensor anchors() {
  return at::tensor({0.0f, 0.0f, 1.0f, 0.5f, 0.0f, 0.0f, 1.0f, 0.25f, 0.0f, 0.0f, 1.0f, 0.2f, 0.0f, 0.75f, 1.0f, 1.0f})
      .view({4, 4});
}

/// One image with one real box of class 1 and weight 0.5, and one padded row.
Groundtruth truth() {
  Groundtruth result;
  result.boxes = at::tensor({0.0f, 0.0f, 1.0f, 0.5f, 0.0f, 0.0f, 0.0f, 0.0f}).view({1, 2, 4});
  result.classes = at::tensor({1, 0}, at::kLong).view({1, 2});
  result.valid = at::tensor({1, 0}).to(at::kBool).view({1, 2});
  result.weights = at::tensor({0.5f, 0.0f}).view({1, 2});
  return result;
}

TEST(TargetAssigner, MatchedIgnoredAndBackgroundAnchors) {
  const Targets targets = assigner("negative_class_weight: 0.25")->assign(anchors(), truth());
  expect_close(targets.match.box, at::tensor({0, 0, -2, -1}).view({1, 4}), 0, 0, "match");
  expect_close(targets.classes.of_anchors()[0],
               at::tensor({0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f}).view({4, 3}), 0, 0,
               "classes");
  expect_close(targets.classes.weights_of_anchors()[0].select(1, 0), at::tensor({0.5f, 0.5f, 0.0f, 0.25f}), 0, 0,
               "class weights");
  expect_close(targets.box_weights[0], at::tensor({0.5f, 0.5f, 0.0f, 0.0f}), 0, 0, "box weights");
  // The second anchor ends 0.25 short of its box.
  expect_close(targets.boxes[0][1], at::tensor({0.0f, 0.0f, 0.0f, 0.25f}), 0, 0, "code");
  expect_close(targets.boxes[0].slice(0, 2), at::zeros({2, 4}), 0, 0, "codes of anchors without a box");
}

TEST(TargetAssigner, BackgroundCanBeEncodedAsZeros) {
  const Targets targets = assigner("encode_background_as_zeros: true")->assign(anchors(), truth());
  expect_close(targets.classes.of_anchors()[0].slice(0, 2), at::zeros({2, 3}), 0, 0, "classes");
}

TEST(TargetAssigner, ClassesCanBeKHot) {
  Groundtruth several = truth();
  several.classes = at::tensor({1.0f, 1.0f, 0.0f, 0.0f}).view({1, 2, 2});
  expect_close(assigner()->assign(anchors(), several).classes.of_anchors()[0][0], at::tensor({0.0f, 1.0f, 1.0f}), 0, 0,
               "classes");
}

TEST(TargetAssigner, WithoutBackgroundColumnThereAreOnlyTheClasses) {
  const Targets targets = assigner("add_background_class: false")->assign(anchors(), truth());
  expect_close(targets.classes.of_anchors()[0],
               at::tensor({0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f}).view({4, 2}), 0, 0, "classes");
  Groundtruth explicit_truth = truth();
  explicit_truth.classes = at::tensor({0.25f, 0.0f, 0.75f, 0.0f, 0.0f, 0.0f}).view({1, 2, 3});
  const Targets soft =
      assigner("add_background_class: false explicit_background_class: true")->assign(anchors(), explicit_truth);
  expect_close(soft.classes.of_anchors()[0][0], at::tensor({0.25f, 0.0f, 0.75f}), 0, 0, "matched");
  expect_close(soft.classes.of_anchors()[0][3], at::tensor({1.0f, 0.0f, 0.0f}), 0, 0, "background");
}

TEST(TargetAssigner, ConfidencesTellPositiveFromNegativeFromUnknown) {
  Groundtruth confident = truth();
  const auto by_confidence = assigner("use_confidences_as_targets: true implicit_example_weight: 0.5");
  // Class 1 is surely there, class 0 surely not: both weigh 1.
  confident.confidences = at::tensor({-1.0f, 1.0f, 0.0f, 0.0f}).view({1, 2, 2});
  Targets targets = by_confidence->assign(anchors(), confident);
  expect_close(targets.classes.of_anchors()[0][0], at::tensor({0.0f, 0.0f, 1.0f}), 0, 0, "classes");
  expect_close(targets.classes.weights_of_anchors()[0][0], at::ones({3}), 0, 0, "explicit weights");
  expect_close(targets.classes.weights_of_anchors()[0][3], at::full({3}, 0.5), 0, 0, "implicit weights");
  expect_close(targets.box_weights[0], at::tensor({1.0f, 1.0f, 0.0f, 0.0f}), 0, 0, "box weights");
  // The box is surely not of its class: no positive anchor, no box loss.
  confident.confidences = at::tensor({-1.0f, 0.0f}).view({1, 2});
  targets = by_confidence->assign(anchors(), confident);
  expect_close(targets.classes.of_anchors()[0][0], at::tensor({1.0f, 0.0f, 0.0f}), 0, 0, "classes of a negative");
  expect_close(targets.classes.weights_of_anchors()[0][0], at::tensor({0.5f, 0.5f, 1.0f}), 0, 0,
               "weights of a negative");
  EXPECT_EQ(targets.box_weights.sum().item<float>(), 0);
  EXPECT_EQ(targets.boxes.abs().sum().item<float>(), 0);
}

TEST(TargetAssigner, KeypointsAreCodedWithTheirBox) {
  Groundtruth with_points = truth();
  with_points.keypoints = at::tensor({0.5f, 0.25f, 0.0f, 0.0f}).view({1, 2, 1, 2});
  const auto keypoints =
      assigner("", "argmax_matcher {}", "iou_similarity {}", "keypoint_box_coder { num_keypoints: 1 }");
  // The keypoint is the centre of the first anchor.
  expect_close(keypoints->assign(anchors(), with_points).boxes[0][0], at::zeros({6}), 0, 1e-5, "codes");
  EXPECT_THROW(keypoints->assign(anchors(), truth()), c10::Error);
}

/// Everything but the match, for equality.
void expect_same(const Targets& a, const Targets& b, const std::string& what) {
  expect_close(a.match.box, b.match.box, 0, 0, what + " match");
  expect_close(a.classes.of_anchors(), b.classes.of_anchors(), 0, 0, what + " classes");
  expect_close(a.classes.weights_of_anchors(), b.classes.weights_of_anchors(), 0, 0, what + " class weights");
  expect_close(a.boxes, b.boxes, 0, 0, what + " boxes");
  expect_close(a.box_weights, b.box_weights, 0, 0, what + " box weights");
}

TEST(TargetAssigner, MorePaddingChangesNothingForEveryMatcherAndSimilarity) {
  at::manual_seed(5);
  const at::Tensor corner = at::rand({3, 4, 2}),
                   many_anchors = at::cat({at::rand({50, 2}) / 2, at::rand({50, 2}) / 2 + 0.5}, -1);
  Groundtruth few;
  few.boxes = at::cat({corner / 2, corner / 2 + 0.3}, -1);
  few.classes = at::randint(0, 2, {3, 4}, at::kLong);
  few.valid = at::tensor({1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0}).to(at::kBool).view({3, 4});
  few.weights = at::rand({3, 4});
  Groundtruth more;
  more.boxes = at::cat({few.boxes, at::rand({3, 3, 4})}, 1);
  more.classes = at::cat({few.classes, at::full({3, 3}, 77, at::kLong)}, 1);
  more.valid = at::cat({few.valid, at::zeros({3, 3}, at::kBool)}, 1);
  more.weights = at::cat({few.weights, at::ones({3, 3})}, 1);
  for (const std::string matcher :
       {"argmax_matcher { force_match_for_each_row: true }", "argmax_matcher { ignore_thresholds: true }",
        "argmax_matcher { unmatched_threshold: 0.3 negatives_lower_than_unmatched: false }", "bipartite_matcher {}"}) {
    for (const std::string similarity :
         {"iou_similarity {}", "ioa_similarity {}", "neg_sq_dist_similarity {}", "thresholded_iou_similarity {}"}) {
      const auto a = assigner("", matcher, similarity);
      expect_same(a->assign(many_anchors, few), a->assign(many_anchors, more), matcher + " " + similarity);
      expect_close(a->match(many_anchors, few).box, a->match(many_anchors, few, /*general=*/true).box, 0, 0,
                   "both paths");
    }
  }
}

TEST(TargetAssigner, NoBoxesNanBoxesAndAllInvalidAreAllBackground) {
  Groundtruth none;
  none.boxes = at::zeros({2, 0, 4});
  none.classes = at::zeros({2, 0}, at::kLong);
  Groundtruth broken = truth();
  broken.boxes = at::full({1, 2, 4}, NAN);
  Groundtruth invalid = truth();
  invalid.valid = at::zeros({1, 2}, at::kBool);
  for (const Groundtruth& g : {none, broken, invalid}) {
    for (const char* matcher :
         {"argmax_matcher { force_match_for_each_row: true ignore_thresholds: true }", "bipartite_matcher {}"}) {
      const Targets targets = assigner("", matcher)->assign(anchors(), g);
      EXPECT_TRUE(at::equal(targets.match.box, at::full_like(targets.match.box, Match::kBackground))) << matcher;
      EXPECT_EQ(targets.box_weights.sum().item<float>(), 0);
      EXPECT_EQ(targets.boxes.abs().sum().item<float>(), 0);
      EXPECT_EQ(targets.classes.weights_of_anchors().min().item<float>(), 1);
    }
  }
}

TEST(TargetAssigner, OneAnchorIsEnough) {
  const auto forced = assigner("", "argmax_matcher { force_match_for_each_row: true }");
  EXPECT_EQ(forced->assign(anchors().slice(0, 3), truth()).match.box.item<int64_t>(), 0);
}

TEST(TargetAssigner, WrongInputThrows) {
  Groundtruth unknown_class = truth();
  unknown_class.classes = at::tensor({2, 0}, at::kLong).view({1, 2});
  if (!kernels::device::reading_waits(unknown_class.classes)) {
    EXPECT_THROW(assigner()->assign(anchors(), unknown_class), c10::Error);
  }
  Groundtruth wide = truth();
  wide.classes = at::zeros({1, 2, 5});
  EXPECT_THROW(assigner()->assign(anchors(), wide), c10::Error);
  EXPECT_THROW(assigner()->assign(at::zeros({4, 3}), truth()), c10::Error);
}

TEST(TargetAssigner, ContradictingOptionsAreReportedWithTheirField) {
  EXPECT_THAT([] { assigner("explicit_background_class: true"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("explicit_background_class")));
  EXPECT_THAT([] { assigner("negative_class_weight: -1"); },
              ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("negative_class_weight")));
  EXPECT_THAT([] { assigner("", ""); }, ::testing::ThrowsMessage<ConfigError>(::testing::HasSubstr("matcher")));
}

}  // namespace
}  // namespace osprey::targets
