#include "osprey/kernels/match_anchors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "osprey/boxes/geometry.h"
#include "osprey/core/targets.h"

namespace osprey::kernels {
namespace {

constexpr int64_t kBackground = Match::kBackground, kIgnore = Match::kIgnore;

at::Tensor match_of(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

/// One image, all rows valid and forcing.
at::Tensor match_one(const at::Tensor& boxes, const at::Tensor& anchors, const MatchOptions& options) {
  const at::Tensor all = at::ones({1, boxes.size(0)}, at::kBool);
  return match_anchors(boxes.unsqueeze(0), all, all, anchors, options)[0];
}

/// Boxes of height 1, from x to x + width.
at::Tensor bars(const std::vector<std::pair<float, float>>& spans) {
  at::Tensor result = at::zeros({static_cast<int64_t>(spans.size()), 4});
  for (size_t i = 0; i < spans.size(); ++i)
    result[static_cast<int64_t>(i)].copy_(at::tensor({0.0f, spans[i].first, 1.0f, spans[i].first + spans[i].second}));
  return result;
}

TEST(MatchAnchors, ThresholdsDivideMatchedIgnoredAndBackground) {
  // Box 4 wide. Anchors inside it of width 4, 2, 1.6 and 1 have IoU 1, 0.5, 0.4 and 0.25.
  const at::Tensor boxes = bars({{0, 4}}), anchors = bars({{0, 4}, {0, 2}, {0, 1.6f}, {0, 1}, {9, 1}});
  MatchOptions options{.matched_threshold = 0.5f, .unmatched_threshold = 0.3f};
  EXPECT_TRUE(at::equal(match_one(boxes, anchors, options), match_of({0, 0, kIgnore, kBackground, kBackground})));
  options.negatives_lower_than_unmatched = false;
  EXPECT_TRUE(at::equal(match_one(boxes, anchors, options), match_of({0, 0, kBackground, kIgnore, kIgnore})));
  options.use_thresholds = false;
  EXPECT_TRUE(at::equal(match_one(boxes, anchors, options), match_of({0, 0, 0, 0, 0})));
}

TEST(MatchAnchors, TiesGoToTheLowerBoxAndTheLowerAnchor) {
  const at::Tensor boxes = bars({{0, 1}, {0, 1}}), anchors = bars({{0, 1}, {0, 1}});
  EXPECT_TRUE(at::equal(match_one(boxes, anchors, {}), match_of({0, 0})));
}

TEST(MatchAnchors, ForcingClaimsTheBestAnchorAndTheLowerBoxWins) {
  // Both boxes overlap only anchor 1 (IoU 0.25 and 0.2): box 0 has it, box 1 gets nothing. Box 2 overlaps none: anchor
  // 0.
  const at::Tensor boxes = bars({{2, 1}, {2, 0.8f}, {9, 1}}), anchors = bars({{0, 1}, {2, 4}});
  const MatchOptions options{.force_match_for_each_row = true};
  EXPECT_TRUE(at::equal(match_one(boxes, anchors, options), match_of({2, 0})));
}

TEST(MatchAnchors, RowsThatDoNotForceStillTakePart) {
  const at::Tensor boxes = bars({{0, 1}, {2, 1}}).unsqueeze(0), anchors = bars({{0, 1}, {2, 4}});
  const at::Tensor all = at::ones({1, 2}, at::kBool), none = at::zeros({1, 2}, at::kBool);
  const MatchOptions options{.force_match_for_each_row = true};
  EXPECT_TRUE(at::equal(match_anchors(boxes, all, none, anchors, options)[0], match_of({0, kBackground})));
  EXPECT_TRUE(at::equal(match_anchors(boxes, none, all, anchors, options)[0], match_of({kBackground, kBackground})));
}

TEST(MatchAnchors, NoBoxesOrNoAnchorsAreFine) {
  const at::Tensor none = at::zeros({2, 0}, at::kBool), one = at::ones({2, 1}, at::kBool);
  const MatchOptions options{.use_thresholds = false, .force_match_for_each_row = true};
  EXPECT_TRUE(at::equal(match_anchors(at::zeros({2, 0, 4}), none, none, bars({{0, 1}}), options),
                        at::full({2, 1}, kBackground)));
  EXPECT_EQ(match_anchors(at::rand({2, 1, 4}), one, one, at::zeros({0, 4}), options).sizes(), at::IntArrayRef({2, 0}));
}

TEST(MatchAnchors, BoxesThatAreNotFiniteTakeNoPart) {
  const at::Tensor boxes = bars({{0, 1}, {0, 1}});
  boxes[0][2] = NAN;
  const MatchOptions options{.force_match_for_each_row = true};
  EXPECT_TRUE(at::equal(match_one(boxes, bars({{0, 1}, {5, 1}}), options), match_of({1, kBackground})));
  EXPECT_TRUE(at::equal(match_one(boxes.slice(0, 0, 1), bars({{0, 1}, {5, 1}}), options),
                        match_of({kBackground, kBackground})));
}

/// Corners on a coarse grid, so that equal overlaps are frequent; some boxes have no area.
at::Tensor grid_boxes(at::IntArrayRef shape) {
  const at::Tensor a = at::randint(0, 9, shape, at::kFloat) / 8, b = at::randint(0, 9, shape, at::kFloat) / 8;
  return at::cat({at::minimum(a, b), at::maximum(a, b)}, -1);
}

TEST(MatchAnchors, AgreesWithTheMatrixOverRandomBoxes) {
  at::manual_seed(3);
  int64_t forced = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int64_t M = trial % 7, A = trial % 3 == 0 ? 1 : 40 * (trial % 15 + 1);  // below, at and above a block
    const at::Tensor anchors = grid_boxes({A, 2}), boxes = grid_boxes({2, M, 2});
    const at::Tensor forcing = at::rand({2, M}) < 0.7, all = at::ones({2, M}, at::kBool);
    MatchOptions options{.use_thresholds = trial % 5 != 0, .matched_threshold = 0.6f, .unmatched_threshold = 0.3f};
    options.negatives_lower_than_unmatched = trial % 4 != 0;
    options.force_match_for_each_row = trial % 2 == 0;
    const at::Tensor fused = match_anchors(boxes, all, forcing, anchors, options);
    for (int64_t b = 0; b < 2; ++b) {
      const at::Tensor general = match_similarity(boxes::iou(boxes[b], anchors), forcing[b], options);
      ASSERT_TRUE(at::equal(fused[b], general)) << "trial " << trial;
      forced += options.force_match_for_each_row ? 1 : 0;
    }
  }
  EXPECT_GT(forced, 0);
}

TEST(MatchAnchors, MorePaddingChangesNothing) {
  at::manual_seed(4);
  const at::Tensor anchors = grid_boxes({300, 2}), boxes = grid_boxes({3, 4, 2}), real = at::rand({3, 4}) < 0.8;
  const at::Tensor more_boxes = at::cat({boxes, grid_boxes({3, 5, 2})}, 1),
                   more_real = at::cat({real, at::zeros({3, 5}, at::kBool)}, 1);
  for (bool thresholds : {true, false}) {
    const MatchOptions options{.use_thresholds = thresholds, .force_match_for_each_row = true};
    const at::Tensor few = match_anchors(boxes, real, at::ones_like(real), anchors, options);
    EXPECT_TRUE(at::equal(few, match_anchors(more_boxes, more_real, at::ones_like(more_real), anchors, options)))
        << thresholds;
  }
}

TEST(MatchSimilarity, NanIsNeverTheBest) {
  const float nan = NAN;
  const at::Tensor similarity = at::tensor({nan, 0.1f, nan, -2.0f, nan, nan}).view({2, 3});
  MatchOptions options{.use_thresholds = false};
  EXPECT_TRUE(at::equal(match_similarity(similarity, {}, options), match_of({1, 0, kBackground})));
}

TEST(MatchAnchors, WrongShapesThrow) {
  const at::Tensor mask = at::ones({1, 2}, at::kBool);
  EXPECT_THROW(match_anchors(at::zeros({1, 3, 4}), mask, mask, at::zeros({5, 4}), {}), c10::Error);
  EXPECT_THROW(match_anchors(at::zeros({1, 2, 4}), mask, mask, at::zeros({5, 3}), {}), c10::Error);
  EXPECT_THROW(match_anchors(at::zeros({1, 2, 4}, at::kDouble), mask, mask, at::zeros({5, 4}), {}), c10::Error);
}

}  // namespace
}  // namespace osprey::kernels
